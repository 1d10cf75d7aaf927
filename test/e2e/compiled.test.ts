// The compile cache of Cellar's code: the next start uses it, replaces damaged entries, and trusts no other user's files.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Cellar } from '../support/e2e/cellar.ts';
import { snapshot, snapshotDirectory } from '../support/e2e/snapshots.ts';
import { descendants, eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

/** Time without a new cache entry, in ms, after which the start counts as ended. Threads may wait long for a busy machine. */
const SETTLED_MS = 15_000;

// Otherwise Cellar would use the compile cache of the test run.
delete process.env.NODE_COMPILE_CACHE;

/** Returns when each entry of a compile cache was written, by its path. Node renames an entry once it is whole. */
function entriesOf(directory: string): Map<string, number> {
  const files = readdirSync(directory, { recursive: true, withFileTypes: true }).filter((each) =>
    each.isFile(),
  );
  const times = files.map(({ parentPath, name }) => {
    const path = join(parentPath, name);
    return [path, statSync(path, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()] as const;
  });
  return new Map(times);
}

test('the next start uses the compile cache, also after a kill, and compiles damaged entries again', async () => {
  // With this variable Node prints which cache entries it reads.
  await using cellar = new Cellar({ NODE_DEBUG_NATIVE: 'COMPILE_CACHE' });
  const directory = join(cellar.data, 'compiled');
  const ofOtherNode = join(directory, 'v25.0.0-x64-1234');
  mkdirSync(ofOtherNode, { recursive: true, mode: 0o700 });
  await cellar.start();
  await eventually(() => !existsSync(ofOtherNode), 'what another Node has compiled is gone');
  // Each thread and process writes its entries once it has loaded.
  const newest = () => Math.max(...entriesOf(directory).values());
  await eventually(() => newest() < Date.now() - SETTLED_MS, 'all entries are written');
  await cellar.stop('SIGKILL');

  // Lines of several threads may be mixed, so any of these files will do. Only the main thread loads them.
  const read = /reading cache from (\S+) for StrippedTypeScript \S+\/runtime\/(?:host|parts|config)\.ts/;
  const damaged = read.exec(cellar.output)?.[1];
  assert.ok(damaged !== undefined, cellar.output.slice(-4_000));
  writeFileSync(damaged, 'damaged');
  const before = entriesOf(directory);
  await cellar.start();
  await eventually(() => readFileSync(damaged, 'latin1') !== 'damaged', 'the damaged entry is replaced');
  await cellar.stop();
  const after = entriesOf(directory);
  const written = [...after].filter(([path, at]) => before.get(path) !== at).map(([path]) => path);
  assert.deepEqual(written, [damaged]);
  assert.equal(statSync(directory).mode & 0o777, 0o700);
});

/** Returns the compile cache of a host's bundler, read from the environment of its process. */
async function bundlerCache(cellar: Cellar): Promise<string | undefined> {
  await cellar.deploy('hello', 'hello');
  const bundler = descendants(cellar.pid).find(({ command }) =>
    command.some((word) => word.endsWith('/bundler/helper.ts')),
  )!;
  const environment = readFileSync(`/proc/${bundler.pid}/environ`, 'utf8').split('\0');
  return environment.find((each) => each.startsWith('NODE_COMPILE_CACHE='))?.split('=')[1];
}

test('the bundler and its bundles are cached only in a directory that no other user can write', async () => {
  using snapshots = snapshotDirectory();
  await using cellar = new Cellar({ RUNNER_SNAPSHOT_URL: snapshots.path, RUNNER_SNAPSHOT_EVERY_H: '0' });
  const directory = join(cellar.data, 'compiled');
  mkdirSync(directory, { recursive: true });
  chmodSync(directory, 0o777);
  await cellar.start();
  assert.equal(await bundlerCache(cellar), undefined);
  await snapshot(cellar);
  await cellar.stop();
  assert.deepEqual(readdirSync(directory), []);
  // The mode stays, so that the next start does not trust files that others may have written.
  assert.equal(statSync(directory).mode & 0o777, 0o777);

  await using good = new Cellar();
  await good.start();
  assert.equal(await bundlerCache(good), join(good.data, 'compiled'));
  assert.ok(existsSync(join(good.data, 'compiled', 'handlers.js')));
});

test('a compile cache that others can write, or that is a symbolic link, is not used', (t) => {
  const start = (data: string) => {
    const env = { PATH: process.env.PATH, RUNNER_DATA_DIR: data, RUNNER_PORT: 'none' };
    const { stderr } = spawnSync(process.execPath, ['runtime/start.js'], {
      env,
      encoding: 'utf8',
      timeout: 180_000,
    });
    assert.match(stderr, /RUNNER_PORT/);
  };
  const root = temporaryDirectory(t);
  const [own, open, link] = ['own', 'open', 'link'].map((name) => join(root, name, 'compiled'));
  mkdirSync(open!, { recursive: true });
  chmodSync(open!, 0o777);
  mkdirSync(join(root, 'link'));
  mkdirSync(join(root, 'elsewhere'), { mode: 0o700 });
  symlinkSync(join(root, 'elsewhere'), link!);
  for (const name of ['own', 'open', 'link']) start(join(root, name));
  assert.deepEqual(
    [own, open, link].map((path) => readdirSync(path!).length > 0),
    [true, false, false],
  );
});
