// Snapshots of several hosts: each contains every app in the bucket, and one host at a time takes one.
import assert from 'node:assert/strict';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { AppRecords } from '../../runtime/bucket/records/app-records.ts';
import { smallObjects } from '../../runtime/bucket/s3-store.ts';
import { HostLease } from '../../runtime/snapshots/host-lease.ts';
import type { Snapshots } from '../../runtime/snapshots/snapshots.ts';
import { listSnapshots, manifestName, readManifest } from '../../runtime/snapshots/store/manifest.ts';
import { packName } from '../../runtime/snapshots/store/packs.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { eventually } from '../support/processes.ts';
import { fileOf, startSnapshots } from '../support/snapshots/host.ts';

const PREFIX = 'of/cellar/';

const idOf = (name: string) => name.padEnd(16, '0');

/** Starts the snapshots of one of several hosts. The hosts share only the bucket. */
function hostOf(t: TestContext, memory: MemoryStore, self: string) {
  const place = memory.place(PREFIX);
  const leases = { store: smallObjects(place), self, lookMs: 20 };
  let hasLocal = false;
  const started = startSnapshots(t, {
    place: { s3: { ...place, prefix: `${PREFIX}snapshots/` } },
    bucket: place,
    hosts: {
      self,
      leases: { take: new HostLease('snapshot', leases), verify: new HostLease('verification', leases) },
      hasLocal: () => hasLocal,
      leftOut: () => [{ app: 'there', slug: 'there', host: 'another' }],
    },
  });
  const { hostStore, paths } = started;
  hostStore.transaction(() => hostStore.records.take('cellar', []));
  const records = new AppRecords(hostStore.records, smallObjects(place), async () => {}, self);
  /** Adds an app of this host in the bucket, with a file there. */
  const addInBucket = async (name: string) => {
    const id = idOf(name);
    const wanted: WantedApp = {
      ...{ id, slug: name, generation: 1, desired_state: 'running', storage: 'bucket', home: self },
      ...{ hostnames: [], env: {}, limits: { clientRpm: null, appRpm: null } },
    };
    hostStore.apps.want(wanted);
    const body = Buffer.from(id);
    memory.objects.set(`${PREFIX}apps/${id}/data/v1/do/k`, {
      body,
      etag: `"${id}"`,
      at: new Date().toISOString(),
    });
    await records.storeAll();
  };
  /** Makes the folder where this host caches the code of an app. */
  const cacheCode = (name: string) => mkdirSync(paths.repository(idOf(name)), { recursive: true });
  const addLocal = (id: string, bytes = 10) => {
    hasLocal = true;
    return started.addApp(id, id, bytes);
  };
  return { ...started, addInBucket, cacheCode, addLocal, self };
}

async function appsOf({ store }: ReturnType<typeof hostOf>, id: string): Promise<string[]> {
  const { parts } = await readManifest(store, id);
  return parts.filter(({ kind }) => kind === 'app').map((part) => part.slug);
}

test('a snapshot has the apps in the bucket of every host, and names what it does not have', async (t) => {
  await using memory = await new MemoryStore().start();
  const [a, b] = [hostOf(t, memory, 'a'), hostOf(t, memory, 'b')];
  await a.addInBucket('here');
  await b.addInBucket('shop');
  for (const id of ['here', 'shop']) a.cacheCode(id);
  const { head, unread } = await a.snapshots.take('asked for');
  assert.deepEqual([unread, head.failures], [[], []]);
  assert.deepEqual(await appsOf(a, head.id), ['here', 'shop']);
  assert.deepEqual(head.left_out, [{ app: 'there', slug: 'there', host: 'another' }]);
  const { parts } = await readManifest(a.store, head.id);
  const paths = parts.find(({ slug }) => slug === 'shop')!.files.map(({ path }) => path);
  assert.ok(paths.includes(`importing/${idOf('shop')}/v1/do/k`), paths.join());
  assert.deepEqual(
    a.hostStore.apps.all().map(({ wanted }) => wanted.slug),
    ['here'],
    'the database of the host itself is unchanged',
  );
});

test('what a host has of its own apps is newer than their records, and a moved app is its next home’s', async (t) => {
  await using memory = await new MemoryStore().start();
  const [a, b] = [hostOf(t, memory, 'a'), hostOf(t, memory, 'b')];
  await a.addInBucket('shop');
  await b.addInBucket('gone');
  for (const id of ['shop', 'gone']) a.cacheCode(id);
  // Host `a` has deleted the shop. The shop's record is still in the bucket.
  a.hostStore.apps.delete(idOf('shop'), 2, new Date().toISOString());
  const { head } = await a.snapshots.take('asked for');
  assert.deepEqual(await appsOf(a, head.id), ['gone']);
});

test('of a scheduled snapshot there is one, and the others learn of it', async (t) => {
  await using memory = await new MemoryStore().start();
  const hosts = ['a', 'b', 'c'].map((self) => hostOf(t, memory, self));
  const [first] = hosts as [(typeof hosts)[0]];
  const { head } = await first.snapshots.take('asked for');
  const everyMs = 2_000;
  const scheduled = hosts.map(({ reopen }) => reopen({ everyMs }));
  await Promise.all(scheduled.map((each) => each.start()));
  const known = (each: Snapshots) => each.state.last_at !== head.created_at;
  await eventually(() => scheduled.every(known), 'all know a newer one');
  await Promise.all(scheduled.map((each) => each.stop()));
  const heads = await first.snapshots.list();
  const times = heads.map(({ created_at }) => Date.parse(created_at)).toReversed();
  for (const [n, time] of times.slice(1).entries()) assert.ok(time - times[n]! >= everyMs, times.join());
});

test('a snapshot that cannot be read does not keep the next ones from being taken', async (t) => {
  await using memory = await new MemoryStore().start();
  const host = hostOf(t, memory, 'a');
  const { head } = await host.snapshots.take('asked for');
  await host.store.write(manifestName(head.id), Buffer.from('damaged'));
  const scheduled = host.reopen({ everyMs: 100 });
  await scheduled.start();
  assert.match(scheduled.state.problem ?? '', /is damaged/);
  await eventually(() => scheduled.state.last_at !== null, 'another one is taken');
  await scheduled.stop();
});

test('a failed snapshot among several hosts is reported once', async (t) => {
  await using memory = await new MemoryStore().start();
  const refused = new Set<string>();
  memory.refuses = (key) => {
    const isManifest = key.startsWith(`${PREFIX}snapshots/snapshots/`);
    if (isManifest) refused.add(key);
    return isManifest;
  };
  const reported: unknown[] = [];
  const host = hostOf(t, memory, 'a').reopen({
    everyMs: 100,
    onTaken: (failure) => {
      reported.push(failure);
      assert.ok(reported.length <= refused.size, `${reported.length} reports of ${refused.size} snapshots`);
    },
  });
  await host.start();
  await eventually(() => reported.length >= 3, 'three snapshots have failed');
  await host.stop();
  for (const failure of reported) assert.match(String(failure), /AccessDenied/);
  assert.ok(refused.size >= 3, `${refused.size} snapshots were taken`);
});

test('hosts with data on their disks take snapshots of their own, which are counted separately', async (t) => {
  await using memory = await new MemoryStore().start();
  const [a, b, c] = ['a', 'b', 'c'].map((self) => hostOf(t, memory, self)) as [
    ReturnType<typeof hostOf>,
    ReturnType<typeof hostOf>,
    ReturnType<typeof hostOf>,
  ];
  a.addLocal('one');
  b.addLocal('two');
  const keep = { count: 1, hourly: 0, days: 0, youngMs: 0 };
  const take = async (host: typeof a) => (await host.reopen({ keep }).take('asked for')).head;
  assert.equal((await take(a)).host, 'a');
  const own = [await take(a), await take(b), await take(c), await take(b), await take(c)].slice(-5);
  assert.deepEqual(
    own.map(({ host }) => host),
    ['a', 'b', '', 'b', ''],
  );
  assert.deepEqual(await listSnapshots(a.store), [own[0]!.id, own[3]!.id, own[4]!.id]);
  // Host `a` counts only its own snapshots, the last of which is older than those of the others.
  const scheduled = a.reopen({ everyMs: 24 * 3_600_000 });
  await scheduled.start();
  assert.equal(scheduled.state.last_at, own[0]!.created_at);
  await scheduled.stop();
});

test('a host continues its own snapshot of its local apps, although another host took one since', async (t) => {
  await using memory = await new MemoryStore().start();
  const [a, b] = [hostOf(t, memory, 'a'), hostOf(t, memory, 'b')];
  const [one, two] = [idOf('one'), idOf('two')];
  const content = a.addLocal(one, 2 ** 20);
  b.addLocal(two);
  await a.snapshots.take('asked for');
  await b.snapshots.take('asked for');
  const { head } = await a.snapshots.take('asked for');
  assert.ok(head.written < 2 ** 19, `${head.written} bytes were written`);
  assert.ok((await a.restored(head.id, one)).equals(content));

  await b.snapshots.take('asked for');
  writeFileSync(join(dirname(fileOf(a.paths.root, one)), 'damaged.sqlite'), 'not a database'.padEnd(8_192));
  const failed = await a.snapshots.take('asked for');
  assert.deepEqual(failed.unread, [one]);
  assert.ok((await a.restored(failed.head.id, one)).equals(content));

  await b.snapshots.take('asked for');
  for (const { name } of await a.store.list(packName(''))) await a.store.remove(name);
  rmSync(join(dirname(fileOf(a.paths.root, one)), 'damaged.sqlite'));
  const whole = await a.snapshots.take('asked for');
  assert.ok((await a.restored(whole.head.id, one)).equals(content), 'missing packs are written again');
});
