// Runs as root too.
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import { test } from 'node:test';
import type { Assets } from '../../../bundler/release.ts';
import { CellFilesCache } from '../../../runtime/fleets/process/cell-files.ts';
import { startCell } from '../../../runtime/fleets/process/start-cell.ts';
import { call, cellOptions, makeRelease } from '../../support/fleets/release.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

const HELLO = `export default { fetch: () => new Response('hello') }`;
const ASSETS: Assets = {
  directory: 'public',
  binding: null,
  notFoundHandling: 'none',
  htmlHandling: 'auto-trailing-slash',
  runWorkerFirst: false,
};

/** Returns each file's name with its inode and time, which change when the file is written again. */
function written(config: string): unknown[] {
  return readdirSync(dirname(config)).map((name) => {
    const { ino, mtimeMs } = statSync(`${dirname(config)}/${name}`);
    return [name, ino, mtimeMs];
  });
}

test('the files of a release are written once for all callers, and nothing is written into the release', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  const cache = new CellFilesCache(`${root}/run`, 512);
  const first = await cache.of(directory);
  assert.deepEqual(readdirSync(directory).sort(), ['app.js', 'release.json']);
  const before = written(first.config);
  assert.equal(await cache.of(directory), first, 'nothing is read again');
  assert.deepEqual(await new CellFilesCache(`${root}/run`, 512).of(directory), first);
  assert.deepEqual(written(first.config), before);
});

test('missing files and those of a release recreated at its path are written again', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO, { vars: { A: '1' } });
  const cache = new CellFilesCache(`${root}/run`, 512);
  const first = await cache.of(directory);
  rmSync(dirname(first.config), { recursive: true });
  assert.deepEqual(await cache.of(directory), first);
  assert.match(readFileSync(first.config, 'utf8'), /name = "A", text = "1"/);

  await makeRelease(`${root}/r`, HELLO, { vars: { A: '2' } });
  utimesSync(`${directory}/release.json`, 1, 1);
  const second = await cache.of(directory);
  assert.notEqual(second.config, first.config);
  assert.match(readFileSync(second.config, 'utf8'), /name = "A", text = "2"/);
});

test('the files of two releases are kept; older ones and those of a killed host are removed', async (t) => {
  const root = temporaryDirectory(t);
  const cache = new CellFilesCache(`${root}/run`, 512);
  const files: string[] = [];
  for (const name of ['a', 'b', 'c']) {
    const { directory } = await makeRelease(`${root}/${name}`, HELLO);
    files.push(basename(dirname((await cache.of(directory)).config)));
  }
  assert.deepEqual(readdirSync(`${root}/run`).sort(), files.slice(1).sort());
});

test('an older release with its own config and rules only in the assets is served unchanged', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(
    `${root}/r`,
    HELLO,
    { assets: ASSETS },
    {
      'public/page.html': 'page',
      'public/_headers': '/page\n  x-from: headers\n',
      'public/_redirects': '/old /page 301\n',
      'cell.capnp': 'not read any more',
      'cellar-entry.js': 'not read any more',
    },
  );
  const cell = await startCell(await cellOptions(root, directory));
  t.after(() => cell.stop());
  const get = (path: string) => call(cell.socketPath('http'), path);
  assert.equal((await get('/page')).headers['x-from'], 'headers');
  assert.equal((await get('/old')).status, 301);
  assert.equal((await get('/other')).text, 'hello');
});

test('rules in the description take precedence', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(
    `${root}/r`,
    null,
    { assets: { ...ASSETS, rules: { headers: '/page\n  x-from: description\n' } } },
    { 'public/page.html': 'page', 'public/_redirects': '/old /page 301\n' },
  );
  const cell = await startCell(await cellOptions(root, directory));
  t.after(() => cell.stop());
  const get = (path: string) => call(cell.socketPath('http'), path);
  assert.equal((await get('/page')).headers['x-from'], 'description');
  assert.equal((await get('/old')).status, 404);
});

test('a release with a missing or damaged description says so', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  writeFileSync(`${directory}/release.json`, '{');
  await assert.rejects(new CellFilesCache(`${root}/run`, 512).of(directory), /JSON/);
  rmSync(`${directory}/release.json`);
  await assert.rejects(new CellFilesCache(`${root}/run`, 512).of(directory), /ENOENT.*release\.json/);
  assert.deepEqual(
    readdirSync(root).filter((name) => name === 'run'),
    [],
  );
});

test('a description of many megabytes blocks the host no longer than a small one', async (t) => {
  const root = temporaryDirectory(t);
  const vars = Object.fromEntries(
    Array.from({ length: 20_000 }, (_, n) => [`NAME_${n}`, 'value '.repeat(80)]),
  );
  const { directory } = await makeRelease(`${root}/r`, HELLO, { vars });
  const cache = new CellFilesCache(`${root}/run`, 512);
  const before = process.threadCpuUsage();
  const { config } = await cache.of(directory);
  const { user, system } = process.threadCpuUsage(before);
  assert.ok(statSync(config).size > 8e6);
  assert.ok(user + system < 100_000, `the host worked ${(user + system) / 1000} ms for it`);
});

test('a launch description above the size limit is refused', async (t) => {
  const root = temporaryDirectory(t);
  const classes = Array.from({ length: 10_000 }, (_, n) => ({
    className: `C${n}`,
    // Fewer characters than the limit, but more bytes.
    storageId: 'ü'.repeat(32) + n,
    sql: true,
  }));
  const { directory } = await makeRelease(`${root}/r`, HELLO, { classes });
  await assert.rejects(new CellFilesCache(`${root}/run`, 512).of(directory), /at most 524288 are allowed/);
});

test('concurrent callers write the files of a release once', async (t) => {
  const root = temporaryDirectory(t);
  const { directory } = await makeRelease(`${root}/r`, HELLO);
  const cache = new CellFilesCache(`${root}/run`, 512);
  const [one, other] = await Promise.all([cache.of(directory), cache.of(directory)]);
  assert.equal(one, other);
});

test('a config names the secrets of the process except those named like bindings, and other names need another config', async (t) => {
  const root = temporaryDirectory(t);
  const databases = [{ binding: 'DB', storageId: 'main', migrations: [] }];
  const { directory } = await makeRelease(`${root}/r`, HELLO, {
    databases,
    vars: { MODE: 'open', A: 'var' },
  });
  const cache = new CellFilesCache(`${root}/run`, 512);
  const { config } = await cache.of(directory, ['A', 'DB']);
  const text = readFileSync(config, 'utf8');
  assert.match(text, /\(name = "A", fromEnvironment = "SECRET_0"\)/);
  assert.doesNotMatch(text, /SECRET_1|"var"/);
  assert.match(text, /\(name = "MODE", text = "open"\)/);
  assert.notEqual((await cache.of(directory, ['A'])).config, config);
});
