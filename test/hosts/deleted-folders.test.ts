// Folders of deleted apps and previews in the bucket, when hosts freeze or are lost.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { HostState } from '../../handlers/contract/host/hosts.ts';
import { FolderRemovals } from '../../runtime/bucket/folder-removals.ts';
import { removeAbandonedFolders } from '../../runtime/bucket/records/abandoned-folders.ts';
import { AppRecords, LeftBucket, OtherHome } from '../../runtime/bucket/records/app-records.ts';
import { readRecords } from '../../runtime/bucket/records/continue.ts';
import { smallObjects } from '../../runtime/bucket/s3-store.ts';
import { Homes } from '../../runtime/hosts/homes.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { clusterIn } from '../support/bucket/clusters.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const DAY_MS = 24 * 3_600_000;
const PREFIX = 'of/cellar/';
const ready = async () => {};

/** Returns the id of an app, by a short name. */
const idOf = (name: string) => name.padEnd(16, '0');

function wanted(name: string, home: string, generation = 1): WantedApp {
  return {
    ...{ id: idOf(name), slug: name, generation, desired_state: 'running', storage: 'bucket', home },
    ...{ hostnames: [], env: {}, limits: { clientRpm: null, appRpm: null } },
  };
}

function hostOf(t: TestContext, memory: MemoryStore, self: string) {
  const store = openHostStore(join(temporaryDirectory(t), 'host.sqlite'));
  t.after(() => store.close());
  const records = new AppRecords(store.records, smallObjects(memory.place(PREFIX)), ready, self);
  const remove = (appId: string) => clusterIn(memory, appId).remove();
  const removals = new FolderRemovals(store.folderRemovals, ready, remove, (id) => records.requireOwn(id));
  return { store, records, removals };
}

function put(memory: MemoryStore, id: string): void {
  const at = new Date().toISOString();
  memory.objects.set(`${PREFIX}apps/${idOf(id)}/data/k`, { body: Buffer.from('x'), etag: '"x"', at });
}

const folders = (memory: MemoryStore) =>
  [...memory.objects.keys()]
    .filter((name) => name.startsWith(`${PREFIX}apps/`))
    .map((name) => name.split('/')[3]!.replace(/0+$/, ''));

test('a host that was frozen removes nothing of what has another home now', async (t) => {
  await using memory = await new MemoryStore().start();
  const [old, next] = [hostOf(t, memory, 'a'), hostOf(t, memory, 'b')];
  old.store.apps.want(wanted('shop', 'a'));
  await old.records.storeAll();
  put(memory, 'shop');
  assert.ok(await next.records.take(wanted('shop', 'b', 2)));
  // The frozen host continues, in the middle of a deletion.
  old.store.transaction(() => {
    old.store.apps.delete(idOf('shop'), 1, new Date().toISOString());
    old.store.folderRemovals.add(idOf('shop'), new Date(0).toISOString());
  });
  await old.removals.run();
  assert.deepEqual(folders(memory), ['shop']);
  assert.deepEqual(old.store.folderRemovals.due(new Date().toISOString()), []);
});

test('once a folder is being removed, no host takes the app', async (t) => {
  await using memory = await new MemoryStore().start();
  const [old, next] = [hostOf(t, memory, 'a'), hostOf(t, memory, 'b')];
  old.store.apps.want(wanted('shop', 'a'));
  await old.records.storeAll();
  put(memory, 'shop');
  old.store.transaction(() => {
    old.store.apps.delete(idOf('shop'), 1, new Date().toISOString());
    old.store.folderRemovals.add(idOf('shop'), new Date(0).toISOString());
  });
  await old.removals.run();
  assert.deepEqual(folders(memory), []);
  await assert.rejects(next.records.take(wanted('shop', 'b', 2)), LeftBucket);
});

test('an app that is deleted after the loss of its home is buried by another host', async (t) => {
  await using memory = await new MemoryStore().start();
  const [lost, heir] = [hostOf(t, memory, 'a'), hostOf(t, memory, 'b')];
  lost.store.apps.want(wanted('shop', 'a'));
  lost.store.apps.want(wanted('view', 'a'));
  const preview = {
    id: idOf('view'),
    parentId: idOf('shop'),
    name: 'view',
    source: 'alias:view',
    versionId: null,
  };
  lost.store.previews.add({ ...preview, createdAt: 1, expiresAt: 2 });
  await lost.records.storeAll();
  const removeAt = new Date(0).toISOString();
  const taken = await heir.records.take(wanted('shop', 'b', 2));
  assert.deepEqual(
    taken?.map((record) => record.wanted.slug),
    ['shop', 'view'],
  );
  heir.store.transaction(() => {
    heir.store.apps.delete(idOf('shop'), 2, new Date().toISOString());
    for (const id of ['shop', 'view']) heir.store.folderRemovals.add(idOf(id), removeAt);
  });
  await heir.records.storeAll();
  // The lost host returns, and tries to store its outdated record.
  lost.store.records.change(idOf('shop'));
  await assert.rejects(lost.records.storeAll(), OtherHome);
  await lost.records.storeAll();
  assert.match(memory.objects.get(`${PREFIX}records/${idOf('shop')}.json`)!.body.toString(), /deletedApp/);
  for (const id of ['shop', 'view']) put(memory, id);
  await heir.removals.run();
  assert.deepEqual(folders(memory), []);
});

test('what a lost host would have removed is removed a day later', async (t) => {
  await using memory = await new MemoryStore().start();
  const lost = hostOf(t, memory, 'a');
  lost.store.apps.want(wanted('kept', 'a'));
  const now = Date.now();
  for (const [id, due] of [
    ['gone', now - DAY_MS - 1],
    ['later', now],
  ] as const) {
    lost.store.apps.want(wanted(id, 'a'));
    lost.store.apps.delete(idOf(id), 1, new Date().toISOString());
    lost.store.folderRemovals.add(idOf(id), new Date(due).toISOString());
  }
  await lost.records.storeAll();
  for (const id of ['kept', 'gone', 'later']) put(memory, id);
  const store = smallObjects(memory.place(PREFIX));
  const remove = (appId: string) => clusterIn(memory, appId).remove();
  await removeAbandonedFolders({ store, ready, remove }, now);
  assert.deepEqual(folders(memory).toSorted(), ['kept', 'later']);
  const left = (await store.list('records/')).map(({ name }) => name);
  assert.deepEqual(left, [`records/${idOf('kept')}.json`, `records/${idOf('later')}.json`]);
});

test('a record that another host removes in the middle of a list is skipped', async (t) => {
  await using memory = await new MemoryStore().start();
  const host = hostOf(t, memory, 'a');
  host.store.apps.want(wanted('kept', 'a'));
  for (const id of ['gone', 'late']) {
    host.store.apps.want(wanted(id, 'a'));
    host.store.apps.delete(idOf(id), 1, new Date().toISOString());
    host.store.folderRemovals.add(idOf(id), new Date(0).toISOString());
    put(memory, id);
  }
  await host.records.storeAll();
  const name = `${PREFIX}records/${idOf('gone')}.json`;
  const record = memory.objects.get(name)!;
  memory.faults.hangs = ({ method, key }) => {
    if (method === 'GET' && key === name) memory.objects.delete(name);
    return false;
  };
  const read = await readRecords(memory.place(PREFIX));
  assert.equal(read.length, 2);
  memory.objects.set(name, record);
  const removed: string[] = [];
  const remove = async (appId: string) => void removed.push(appId);
  const store = smallObjects(memory.place(PREFIX));
  await removeAbandonedFolders({ store, ready, remove });
  assert.deepEqual(removed, [idOf('late')]);
  assert.deepEqual(
    [...memory.objects.keys()].filter((key) => key.startsWith(`${PREFIX}records/`)),
    [`${PREFIX}records/${idOf('kept')}.json`],
  );
});

test('one host does what is done for all: the first of the active ones', () => {
  const homes = new Homes('b', 'localhost');
  assert.equal(homes.leads, false, 'it knows no host yet');
  const hear = (states: Record<string, HostState>) =>
    homes.take({
      hosts: Object.entries(states).map(([id, state]) => ({ id, name: id, address: '', version: '', state })),
      ...{ revision: 1, whole: true, routes: [], deleted: [] },
    });
  for (const [states, leads] of [
    [{ c: 'active', b: 'active', a: 'silent' }, true],
    [{ c: 'active', b: 'active', a: 'active' }, false],
    [{ b: 'draining', c: 'active' }, false],
  ] as const) {
    hear(states);
    assert.equal(homes.leads, leads);
  }
});
