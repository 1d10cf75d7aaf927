import assert from 'node:assert/strict';
import { existsSync, fstatSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openHostDatabase } from '../../../sqlite/host/database.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import { WriteAheadLog } from '../../../sqlite/host/write-ahead-log.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

/** A database whose syncs end when the test says so. */
function opened(t: TestContext) {
  const path = join(temporaryDirectory(t), 'host.sqlite');
  const database = openHostDatabase(path);
  const syncs: { descriptor: number; resolve: () => void; reject: (error: Error) => void }[] = [];
  const log = new WriteAheadLog(database, (descriptor) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    syncs.push({ descriptor, resolve, reject });
    return promise;
  });
  t.after(() => {
    database.close();
    log.close();
  });
  const insert = database.prepare<[string, string]>('INSERT OR REPLACE INTO meta VALUES (?, ?)');
  return {
    path,
    database,
    log,
    syncs,
    commit: (value = 'x') => {
      insert.run('test', value);
    },
    /** Frames of the log, and those of them that are in the database. */
    frames: () => database.pragma('wal_checkpoint(NOOP)') as [{ log: number; checkpointed: number }],
  };
}

/** Lets everything run that is ready to. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** @returns whether it has resolved */
async function isDone(promise: Promise<void>): Promise<boolean> {
  const done = promise.then(() => true);
  await turn();
  return Promise.race([done, false]);
}

test('a commit waits for no disk', (t) => {
  const { database } = opened(t);
  assert.equal(database.pragma('synchronous', { simple: true }), 1, 'NORMAL');
  assert.equal(database.pragma('locking_mode', { simple: true }), 'exclusive');
});

test('what was committed is on the disk when the log was synced, and not before', async (t) => {
  const { path, log, syncs, commit } = opened(t);
  commit();
  const synced = log.synced();
  assert.equal(await isDone(synced), false);
  assert.equal(syncs.length, 1);
  assert.equal(fstatSync(syncs[0]!.descriptor).ino, statSync(`${path}-wal`).ino, 'it is the log');
  syncs[0]!.resolve();
  await synced;
});

test('the first sync takes what a host that was killed has left in the log', async (t) => {
  const { log, syncs } = opened(t);
  const synced = log.synced();
  await turn();
  syncs[0]!.resolve();
  await synced;
});

test('without a commit since the last sync there is none', async (t) => {
  const { log, syncs, commit, database } = opened(t);
  commit();
  const synced = log.synced();
  await turn();
  syncs[0]!.resolve();
  await synced;
  database.prepare('SELECT * FROM meta').all();
  await log.synced();
  assert.equal(syncs.length, 1);
});

test('calls share the sync under way if it has all they ask for, and the next one otherwise', async (t) => {
  const { log, syncs, commit } = opened(t);
  commit();
  const first = [log.synced(), log.synced()];
  await turn();
  first.push(log.synced());
  commit();
  const next = [log.synced(), log.synced()];
  assert.equal(await isDone(next[0]!), false);
  assert.equal(syncs.length, 1, 'one at a time');
  syncs[0]!.resolve();
  await Promise.all(first);
  assert.equal(await isDone(next[0]!), false);
  commit();
  next.push(log.synced());
  assert.equal(syncs.length, 2);
  syncs[1]!.resolve();
  await Promise.all(next.slice(0, 2));
  assert.equal(await isDone(next[2]!), false, 'it was committed after that sync had begun');
  syncs[2]!.resolve();
  await next[2];
  assert.equal(syncs.length, 3);
});

test('a failed sync fails all that wait for it, and the next one copies the whole log into the database', async (t) => {
  const { log, syncs, commit, frames } = opened(t);
  commit();
  const waiting = [log.synced(), log.synced()];
  await turn();
  syncs[0]!.reject(new Error('EIO: i/o error'));
  for (const synced of waiting) await assert.rejects(synced, /EIO/);
  assert.equal(frames()[0].checkpointed, 0);
  await log.synced();
  assert.equal(syncs.length, 1, 'a second sync of the same pages proves nothing');
  const [{ log: all, checkpointed }] = frames();
  assert.ok(all > 0);
  assert.equal(checkpointed, all);
  commit();
  const synced = log.synced();
  await turn();
  syncs[1]!.resolve();
  await synced;
});

test('a long log is copied into the database after a fast sync, and is bounded without any', async (t) => {
  const { path, log, syncs, commit, frames } = opened(t);
  const commitMebibyte = (n: number) => commit(String(n % 10).repeat(2 ** 20));
  for (let n = 0; n < 20; n++) commitMebibyte(n);
  assert.ok(frames()[0].log > 4_096);
  const synced = log.synced();
  await turn();
  syncs[0]!.resolve();
  await synced;
  assert.equal(frames()[0].checkpointed, frames()[0].log);
  for (let n = 0; n < 100; n++) commitMebibyte(n);
  const longest = statSync(`${path}-wal`).size;
  assert.ok(longest < 70 * 2 ** 20, `${longest}`);
});

test('a database that is closed under a sync leaves nobody waiting, and all is on the disk', async (t) => {
  const path = join(temporaryDirectory(t), 'host.sqlite');
  const store = openHostStore(path);
  store.apps.delete('a', 7, 'now');
  const synced = store.synced();
  store.close();
  await synced;
  assert.equal(existsSync(`${path}-wal`), false);
  const again = openHostStore(path);
  t.after(() => again.close());
  assert.equal(again.apps.generation('a'), 7);
  await again.synced();
});
