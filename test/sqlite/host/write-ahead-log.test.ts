import assert from 'node:assert/strict';
import { existsSync, fstatSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { openHostDatabase } from '../../../sqlite/host/database.ts';
import { openHostStore } from '../../../sqlite/host/index.ts';
import { WriteAheadLog } from '../../../sqlite/host/write-ahead-log.ts';
import { temporaryDirectory } from '../../support/temporary.ts';

/** Opens a database whose syncs end when the test says so. */
function opened(t: TestContext) {
  const path = join(temporaryDirectory(t), 'host.sqlite');
  const database = openHostDatabase(path);
  const syncs: { descriptor: number; resolve: () => void; reject: (error: Error) => void }[] = [];
  const log = new WriteAheadLog(database, (descriptor) => {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    syncs.push({ descriptor, resolve, reject });
    return promise;
  });
  const close = () => {
    database.close();
    log.close();
  };
  t.after(() => {
    if (database.open) close();
  });
  const insert = database.prepare<[string, string]>('INSERT OR REPLACE INTO meta VALUES (?, ?)');
  return {
    path,
    database,
    log,
    close,
    syncs,
    commit: (value = 'x') => {
      insert.run('test', value);
    },
    /** Frames in the log, and how many of them are checkpointed. */
    frames: () => database.pragma('wal_checkpoint(NOOP)') as [{ log: number; checkpointed: number }],
  };
}

/** Runs all ready callbacks. */
const turn = () => new Promise((resolve) => setImmediate(resolve));

/** @returns whether the promise has resolved */
async function isDone(promise: Promise<void>): Promise<boolean> {
  const done = promise.then(() => true);
  await turn();
  return Promise.race([done, false]);
}

test('a commit does not wait for the disk', (t) => {
  const { database } = opened(t);
  assert.equal(database.pragma('synchronous', { simple: true }), 1, 'NORMAL');
  assert.equal(database.pragma('locking_mode', { simple: true }), 'exclusive');
});

test('a commit is on the disk when the log is synced, and not before', async (t) => {
  const { path, log, syncs, commit } = opened(t);
  commit();
  const synced = log.synced();
  assert.equal(await isDone(synced), false);
  assert.equal(syncs.length, 1);
  assert.equal(fstatSync(syncs[0]!.descriptor).ino, statSync(`${path}-wal`).ino, 'it is the log');
  syncs[0]!.resolve();
  await synced;
});

test('the first sync covers frames that a killed host left in the log', async (t) => {
  const { log, syncs } = opened(t);
  const synced = log.synced();
  await turn();
  syncs[0]!.resolve();
  await synced;
});

test('without a commit since the last sync there is no sync', async (t) => {
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

test('calls share the running sync if it covers their commits, and the next one otherwise', async (t) => {
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

test('a call at the moment a sync ends does not start a second one beside the next', async (t) => {
  const { path, log, syncs, commit } = opened(t);
  commit();
  const first = log.synced().then(() => {
    commit('first');
    return log.synced();
  });
  await turn();
  commit('second');
  const second = log.synced();
  syncs[0]!.resolve();
  await turn();
  assert.equal(syncs.length, 2, 'one at a time');
  syncs[1]!.reject(new Error('EIO: i/o error'));
  const ended = Promise.allSettled([first, second]);
  await assert.rejects(second, /EIO/);
  await turn();
  const again = log.synced();
  assert.equal(await isDone(again), false, 'the failure is not forgotten');
  syncs.at(-1)!.resolve();
  await again;
  assert.equal(statSync(`${path}-wal`).size, 0);
  await ended;
});

test('a failed sync fails all that wait for it, and the next one empties the log', async (t) => {
  const { path, log, syncs, commit, frames } = opened(t);
  const logBytes = () => statSync(`${path}-wal`).size;
  commit();
  const waiting = Promise.allSettled([log.synced(), log.synced()]);
  await turn();
  syncs[0]!.reject(new Error('EIO: i/o error'));
  for (const result of await waiting) assert.equal(result.status, 'rejected');
  assert.equal(frames()[0].checkpointed, 0);
  const failing = log.synced();
  await turn();
  // A failed sync may lose frames of the log. After a power cut, SQLite would copy that log over the database.
  assert.equal(logBytes(), 0, 'all is in the database');
  assert.equal(syncs.length, 2, 'that the log is empty must be on the disk too');
  syncs[1]!.reject(new Error('EIO: i/o error'));
  await assert.rejects(failing, /EIO/);
  commit();
  const synced = log.synced();
  await turn();
  assert.equal(logBytes(), 0, 'nothing is believed of the log yet');
  syncs[2]!.resolve();
  await synced;
  commit('after it');
  const next = log.synced();
  await turn();
  assert.ok(logBytes() > 0, 'the log is used again');
  syncs[3]!.resolve();
  await next;
});

test('a long log is checkpointed after a fast sync, and is bounded without syncs', async (t) => {
  const { path, log, syncs, commit, frames } = opened(t);
  const commitMebibyte = (n: number) => commit(String(n % 10).repeat(2 ** 20));
  for (let n = 0; n < 20; n++) commitMebibyte(n);
  assert.ok(frames()[0].log > 4_096);
  t.mock.method(performance, 'now', () => 0);
  const synced = log.synced();
  await turn();
  syncs[0]!.resolve();
  await synced;
  assert.equal(frames()[0].checkpointed, frames()[0].log);
  for (let n = 0; n < 100; n++) commitMebibyte(n);
  const longest = statSync(`${path}-wal`).size;
  assert.ok(longest < 70 * 2 ** 20, `${longest}`);
});

test('closing the database during a sync leaves no caller waiting, and all commits are on the disk', async (t) => {
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

test('after the close no caller waits or gets an error, and the log stays open for the running sync', async (t) => {
  const { log, syncs, commit, close } = opened(t);
  commit();
  const running = log.synced();
  await turn();
  commit();
  const next = log.synced();
  close();
  fstatSync(syncs[0]!.descriptor);
  await log.synced();
  syncs[0]!.resolve();
  await running;
  await next;
  assert.equal(syncs.length, 1);
});
