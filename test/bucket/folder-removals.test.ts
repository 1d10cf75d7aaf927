// Folders of deleted apps are removed from the bucket when they are due, and no other folder is.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FolderRemovals } from '../../runtime/bucket/folder-removals.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { clusterIn } from '../support/bucket/clusters.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const PAST = new Date(Date.now() - 1_000).toISOString();
const LATER = new Date(Date.now() + 60_000).toISOString();
const ready = async () => {};

/** Opens a host's database, as a start of the host does. */
function openHost(t: TestContext, store: MemoryStore, file = join(temporaryDirectory(t), 'host.sqlite')) {
  const host = openHostStore(file);
  const queries = host.folderRemovals;
  const removals = new FolderRemovals(queries, ready, (appId) => clusterIn(store, appId).remove());
  return { file, host, queries, removals, close: () => host.close() };
}

function put(store: MemoryStore, ...names: string[]): void {
  for (const name of names)
    store.objects.set(`of/cellar/apps/${name}`, {
      ...{ body: Buffer.from('x'), etag: '"x"', at: new Date().toISOString() },
    });
}

const names = (store: MemoryStore) =>
  [...store.objects.keys()].map((name) => name.slice('of/cellar/apps/'.length)).sort();

test('only the folder of the deleted app is removed, and only when it is due', async (t) => {
  await using store = await new MemoryStore().start();
  const { queries, removals, close } = openHost(t, store);
  t.after(close);
  put(
    store,
    'a1/data/v1/do/k',
    'a1/data/v1/nodes/n.json',
    'a1/app.json',
    'a1b/data/k',
    'a/data/k',
    'later/data/k',
  );
  queries.add('a1', PAST);
  queries.add('later', LATER);
  await removals.run();
  assert.deepEqual(names(store), ['a/data/k', 'a1b/data/k', 'later/data/k']);
  assert.deepEqual(queries.due(LATER), ['later']);
});

test('an object whose name has characters of URLs is removed, and no other instead of it', async (t) => {
  await using store = await new MemoryStore().start();
  const { queries, removals, close } = openHost(t, store);
  t.after(close);
  put(store, ...['a', 'a?x', 'a#x', 'a b', 'a+b', 'é', 'a&amp;', "it's"].map((name) => `a1/data/${name}`));
  put(store, 'a2/data/a');
  queries.add('a1', PAST);
  await removals.run();
  assert.deepEqual(names(store), ['a2/data/a']);
});

test('a folder with more objects than one page of a list is removed', async (t) => {
  await using store = await new MemoryStore().start();
  const { queries, removals, close } = openHost(t, store);
  t.after(close);
  put(store, ...Array.from({ length: 2_500 }, (_, n) => `a1/data/v1/do/${n}`), 'a2/data/k');
  queries.add('a1', PAST);
  await removals.run();
  assert.deepEqual(names(store), ['a2/data/k']);
  assert.deepEqual(queries.due(LATER), []);
  const lists = store.asked.filter(({ method }) => method === 'GET').length;
  assert.equal(lists, 3);
});

for (const fault of ['isBusy', 'cuts'] as const) {
  test(`a removal that fails is done by a later round, also after a restart: ${fault}`, {
    timeout: 60_000,
  }, async (t) => {
    await using store = await new MemoryStore().start();
    const before = openHost(t, store);
    put(store, 'a1/data/k1', 'a1/data/k2');
    before.queries.add('a1', PAST);
    store.faults = { [fault]: true };
    await before.removals.run();
    assert.deepEqual(names(store), ['a1/data/k1', 'a1/data/k2']);
    assert.deepEqual(before.queries.due(LATER), ['a1']);
    before.close();
    store.faults = {};
    const { queries, removals, close } = openHost(t, store, before.file);
    t.after(close);
    await removals.run();
    assert.deepEqual(names(store), []);
    assert.deepEqual(queries.due(LATER), []);
  });
}

test('the failure of one removal leaves the others, and the next round does it', async (t) => {
  const { queries, close } = openHost(t, new MemoryStore());
  t.after(close);
  queries.add('a1', PAST);
  queries.add('a2', PAST);
  const asked: string[] = [];
  const removals = new FolderRemovals(queries, ready, async (appId) => {
    asked.push(appId);
    if (appId === 'a1' && asked.length === 1) throw new Error('the store is busy');
  });
  await Promise.all([removals.run(), removals.run()]);
  assert.deepEqual(asked, ['a1', 'a2'], 'calls during a round wait for the same one');
  assert.deepEqual(queries.due(LATER), ['a1']);
  await removals.run();
  assert.deepEqual(asked, ['a1', 'a2', 'a1']);
  assert.deepEqual(queries.due(LATER), []);
});

test('the folder of an app that moves into the bucket during the round stays', async (t) => {
  await using store = await new MemoryStore().start();
  const { host, queries, close } = openHost(t, store);
  t.after(close);
  queries.add('a1', PAST);
  queries.add('a2', PAST);
  queries.add('a3', PAST);
  const asked: string[] = [];
  const want = (id: string) =>
    host.apps.want({
      ...{ id, slug: id, generation: 1, desired_state: 'running', hostnames: [], env: {} },
      ...{ limits: { clientRpm: null, appRpm: null }, storage: 'bucket' },
    });
  const removals = new FolderRemovals(queries, ready, async (appId) => {
    asked.push(appId);
    if (asked.length > 1) return;
    // During the removal of a1, the app a2 moves into the bucket, and a1 and a3 become due later.
    want('a2');
    queries.delete('a3');
    queries.add('a3', LATER);
    queries.delete('a1');
    queries.add('a1', LATER);
  });
  await removals.run();
  assert.deepEqual(asked, ['a1']);
  assert.deepEqual(queries.due(LATER), ['a2', 'a1', 'a3']);
});
