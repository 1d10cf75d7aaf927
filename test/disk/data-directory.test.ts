// Runs as root too.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { claim, keptSecret, layout, openToUsers } from '../../runtime/disk/data-directory.ts';
import { temporaryDirectory } from '../support/temporary.ts';

test('a second host is refused with the pid of the first, and may start when that has ended', (t) => {
  const paths = layout(join(temporaryDirectory(t), 'data'));
  const release = claim(paths);
  assert.equal(readFileSync(paths.pid, 'utf8'), `${process.pid}\n`);
  assert.equal(statSync(paths.root).mode & 0o777, 0o700);
  assert.throws(() => claim(paths), new RegExp(`belongs to another Cellar, process ${process.pid}`));
  release();
  assert.ok(!existsSync(paths.pid));
  claim(paths)();
});

test('a data directory that cannot be made stops the start with the name of its setting', async (t) => {
  const directory = temporaryDirectory(t);
  const file = join(directory, 'file');
  writeFileSync(file, '');
  for (const path of ['/proc/x', '/proc/x/y', file, join(file, 'x')]) {
    const host = spawn(process.execPath, ['runtime/start.js'], {
      env: { PATH: process.env.PATH, RUNNER_DATA_DIR: path, RUNNER_PORT: '0', RUNNER_EDGE_PORT: '0' },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    t.after(() => host.kill('SIGKILL'));
    const said = text(host.stdout);
    const [code] = await once(host, 'exit', { signal: AbortSignal.timeout(60_000) });
    assert.equal(code, 1, path);
    assert.match(await said, /RUNNER_DATA_DIR: the directory \S+ cannot be made/, path);
  }
});

test('a data directory that this user may not make or write to is refused by name', (t) => {
  const directory = temporaryDirectory(t);
  const data = layout(join(directory, 'data'));
  for (const path of [directory, data.root]) chmodSync(path, 0o555);
  // Root may write everywhere, so this test gives root up.
  const isRoot = process.geteuid!() === 0;
  if (isRoot) process.seteuid!(65_534);
  try {
    assert.throws(
      () => layout(join(directory, 'other')),
      /^Error: RUNNER_DATA_DIR: .*other cannot be made \(EACCES/,
    );
    assert.throws(() => claim(data), /^Error: RUNNER_DATA_DIR: .*data cannot be written to/);
  } finally {
    if (isRoot) process.seteuid!(0);
    for (const path of [directory, data.root]) chmodSync(path, 0o700);
  }
});

test('a claim ends with its process, also by SIGKILL', async (t) => {
  const paths = layout(temporaryDirectory(t));
  const module = new URL('../../runtime/disk/data-directory.ts', import.meta.url).href;
  const script = `const { claim, layout } = await import(${JSON.stringify(module)});
    claim(layout(${JSON.stringify(paths.root)})); gc(); console.log('claimed'); setInterval(() => {}, 1000);`;
  const owner = spawn(process.execPath, ['--expose-gc', '--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.after(() => owner.kill('SIGKILL'));
  await once(owner.stdout, 'data', { signal: AbortSignal.timeout(60_000) });
  assert.throws(() => claim(paths), new RegExp(`process ${owner.pid}`));
  owner.kill('SIGKILL');
  await once(owner, 'exit');
  claim(paths)();
});

test('a secret is generated once, kept, and readable by its owner only', (t) => {
  const path = join(temporaryDirectory(t), 'token');
  const made = keptSecret(path, 'cellar_');
  assert.match(made, /^cellar_[\w-]{43}$/);
  assert.equal(keptSecret(path), made);
  assert.equal(statSync(path).mode & 0o777, 0o600);
});

test('apps’ users may traverse to their own directories, and nothing else is open to them', (t) => {
  const paths = layout(temporaryDirectory(t));
  mkdirSync(paths.control);
  writeFileSync(paths.database, '');
  for (const path of [paths.control, paths.database]) chmodSync(path, 0o755);
  openToUsers(paths);
  const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
  const { root, builds, caches, control, database } = paths;
  const app = [paths.data('a'), paths.releases('a'), paths.run('a')].map((path) => dirname(path));
  assert.deepEqual(new Set([root, builds, caches, ...app].map(mode)), new Set(['711']));
  assert.deepEqual([control, database].map(mode), ['700', '600']);
});

test('a symlinked directory is used by its real path, which must be short enough for sockets', (t) => {
  const directory = temporaryDirectory(t);
  mkdirSync(join(directory, 'disk'));
  symlinkSync('disk', join(directory, 'link'));
  assert.equal(layout(join(directory, 'link')).root, join(directory, 'disk'));
  assert.equal(layout(join(directory, 'link', 'new', 'data')).root, join(directory, 'disk', 'new', 'data'));
  const long = join(directory, 'x'.repeat(70));
  mkdirSync(long);
  symlinkSync(long, join(directory, 'long'));
  assert.throws(
    () => layout(join(directory, 'long')),
    /RUNNER_DATA_DIR.*is really .*x{70}.*at most 65 bytes/,
  );
});
