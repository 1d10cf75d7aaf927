// Records of apps in the bucket: what another machine gets from them.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { DeployFact, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { claimBucket, proofOf } from '../../runtime/bucket/owner.ts';
import type { S3Place } from '../../runtime/bucket/place.ts';
import { AppRecords, OtherHome } from '../../runtime/bucket/records/app-records.ts';
import { continueFromBucket } from '../../runtime/bucket/records/continue.ts';
import { learnDueTimes } from '../../runtime/bucket/records/due-times.ts';
import { S3Store } from '../../runtime/bucket/s3-store.ts';
import { readConfig } from '../../runtime/config.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import { type HostStore, openHostStore } from '../../sqlite/host/index.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { eventually } from '../support/e2e/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const KEY = 'a'.repeat(64);
const AT = '2026-11-27T10:00:00.000Z';

function wanted(id: string, storage: 'bucket' | 'local' = 'bucket'): WantedApp {
  return {
    id,
    slug: id,
    generation: 3,
    storage,
    desired_state: 'running',
    env: { A: '1' },
  } as unknown as WantedApp;
}

function fact(id: string, appId: string, rest: Partial<DeployFact>): DeployFact {
  return {
    id,
    app_id: appId,
    sha: 'f'.repeat(40),
    status: 'replaced',
    can_roll_back: true,
    ...rest,
  } as DeployFact;
}

function machine(t: TestContext, place: S3Place) {
  const paths = layout(join(temporaryDirectory(t), 'data'));
  const config = (key = KEY) =>
    readConfig({
      ...bucketSettings(place),
      RUNNER_DATA_DIR: paths.root,
      RUNNER_TOKEN: 'token-0123456789abcdef',
      RUNNER_CLUSTER_KEY: key,
    });
  const open = (self: string | null = null): { store: HostStore; records: AppRecords } => {
    const store = openHostStore(paths.database);
    t.after(() => store.close());
    return { store, records: new AppRecords(store.records, new S3Store(place), async () => {}, self) };
  };
  return { paths, config, open };
}

test('an empty machine gets all that another one had of its apps in the bucket', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place('of/cellar/');
  const first = machine(t, place).open();
  const { store } = first;
  store.apps.want(wanted('shop'));
  store.apps.want(wanted('here', 'local'));
  store.deploys.save(fact('d1', 'shop', {}));
  store.deploys.save(fact('d2', 'shop', { status: 'live' }), 'd1');
  store.apps.setLive('shop', 'd2', AT, { databases: { DB: 'db1' } }, ['orders']);
  store.secrets.set('shop', 'KEY', Buffer.from([0, 255]), AT);
  store.apps.setSleep('shop', { asleepSince: AT, wokeAt: null });
  store.apps.want({ ...wanted('pr1'), slug: 'pr1-shop' });
  const preview = {
    id: 'pr1',
    parentId: 'shop',
    name: 'pr1',
    source: 'refs/heads/a',
    versionId: null,
    createdAt: 1,
    expiresAt: 2,
  };
  store.previews.add(preview);
  await first.records.storeAll();
  const cellar = store.snapshots.cellar();
  await claimBucket(place, { cellar, machine: 'first', proof: proofOf(KEY, cellar) }, false);

  const next = machine(t, place);
  await continueFromBucket(next.config(), next.paths);
  const found = next.open().store;
  assert.equal(found.snapshots.cellar(), cellar);
  const [shop, ...others] = found.apps.all();
  assert.deepEqual(others, [], 'data on the lost machine is lost');
  assert.deepEqual(shop, {
    wanted: wanted('shop'),
    liveDeployId: 'd2',
    deployedAt: AT,
    consumes: ['orders'],
    sleep: { asleepSince: AT, wokeAt: null },
  });
  assert.deepEqual(found.apps.storageNames('shop'), { databases: { DB: 'db1' } });
  assert.deepEqual(found.deploys.last('shop', 5), store.deploys.last('shop', 5));
  assert.deepEqual(found.secrets.all('shop'), store.secrets.all('shop'));
  assert.deepEqual(
    found.previews.all().map(({ id, parentId }) => [id, parentId]),
    [['pr1', 'shop']],
  );
  assert.deepEqual(found.activity.all().get('shop'), { lastRequestAt: null, resting: true, dueAt: null });
  assert.deepEqual(found.records.changed(), [], 'nothing is written again');
});

test('each change of an app is in its record, and a deleted app has none', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store, records } = machine(t, bucket.place()).open();
  const record = () => {
    const object = bucket.objects.get('records/shop.json');
    return object === undefined ? null : JSON.parse(object.body.toString('utf8'));
  };
  store.apps.want(wanted('shop'));
  await records.stored('shop');
  assert.equal(record().liveDeployId, null);
  store.deploys.save(fact('d1', 'shop', { can_roll_back: false }));
  assert.equal(store.records.changeOf('shop'), null, 'a deploy that is under way is no change');
  const changes: [() => void, (found: ReturnType<typeof record>) => unknown, unknown][] = [
    [() => store.deploys.save(fact('d1', 'shop', {})), (found) => found.deploys[0].fact.can_roll_back, true],
    [() => store.apps.setLive('shop', 'd1', AT, {}), (found) => found.liveDeployId, 'd1'],
    [
      () => store.apps.setStorageNames('shop', { namespaces: { KV: 'k' } }),
      (found) => found.storageNames.namespaces.KV,
      'k',
    ],
    [() => store.secrets.set('shop', 'A', Buffer.from('x'), AT), (found) => found.secrets.length, 1],
    [() => store.secrets.delete('shop', 'A'), (found) => found.secrets.length, 0],
  ];
  for (const [change, of, expected] of changes) {
    change();
    assert.notEqual(store.records.changeOf('shop'), null);
    await records.stored('shop');
    assert.equal(of(record()), expected);
  }
  store.apps.delete('shop', 4, AT);
  await records.stored('shop');
  assert.equal(record(), null);
  store.apps.want(wanted('here', 'local'));
  store.secrets.set('here', 'A', Buffer.from('x'), AT);
  assert.deepEqual(store.records.changed(), []);
});

test('the folder of a deleted app is removed by the machine that continues', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const first = machine(t, place).open();
  const { store } = first;
  store.apps.want(wanted('shop'));
  store.transaction(() => {
    store.apps.delete('shop', 4, AT);
    store.folderRemovals.add('shop', AT);
  });
  await first.records.storeAll();
  const cellar = store.snapshots.cellar();
  await claimBucket(place, { cellar, machine: 'first', proof: proofOf(KEY, cellar) }, false);
  const next = machine(t, place);
  await continueFromBucket(next.config(), next.paths);
  const found = next.open();
  assert.deepEqual([found.store.apps.all(), found.store.folderRemovals.due(AT)], [[], ['shop']]);
  found.store.folderRemovals.delete('shop');
  await found.records.storeAll();
  assert.ok(!bucket.objects.has('records/shop.json'));
});

test('apps of a restored database that the bucket does not know get a record', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const { store, records } = machine(t, place).open();
  for (const id of ['known', 'restored']) store.apps.want(wanted(id));
  const known = store.records.read('known')!;
  store.records.take('one', [known]);
  assert.deepEqual(
    store.records.changed().map(({ appId }) => appId),
    ['restored'],
  );
  await records.storeAll();
  assert.ok(bucket.objects.has('records/restored.json'));
});

test('records of previews that are no more do not stop a machine that continues', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const first = machine(t, place).open();
  const { store } = first;
  const preview = (id: string, createdAt: number) => {
    store.apps.want(wanted(id));
    const row = { id, parentId: 'shop', name: id, source: 'refs/heads/a', versionId: null, expiresAt: 9 };
    store.previews.add({ ...row, createdAt });
  };
  store.apps.want(wanted('shop'));
  preview('pr1', 1);
  await first.records.storeAll();
  const older = bucket.objects.get('records/pr1.json')!;
  store.previews.remove('pr1');
  preview('pr2', 2);
  await first.records.storeAll();
  bucket.objects.set('records/pr1.json', older);
  const cellar = store.snapshots.cellar();
  await claimBucket(place, { cellar, machine: 'first', proof: proofOf(KEY, cellar) }, false);
  const next = machine(t, place);
  await continueFromBucket(next.config(), next.paths);
  assert.deepEqual(
    next
      .open()
      .store.previews.all()
      .map(({ id }) => id),
    ['pr2'],
  );

  bucket.objects.delete('records/shop.json');
  const last = machine(t, place);
  await continueFromBucket(last.config(), last.paths);
  const { store: found } = last.open();
  assert.deepEqual([found.previews.all(), found.folderRemovals.due(AT)], [[], ['pr1', 'pr2']]);
});

test('a change during a write is written too, and what the bucket refuses is written later', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store } = machine(t, bucket.place()).open();
  const writes: string[] = [];
  let isAway = true;
  const records = new AppRecords(
    store.records,
    {
      etagOf: async () => null,
      readTagged: () => Promise.reject(new Error('it is not read')),
      writeIf: async (_, bytes) => {
        if (isAway) throw new Error('away');
        writes.push(JSON.parse(bytes.toString('utf8')).deployedAt);
        if (writes.length === 1) store.apps.setLive('shop', 'd2', 'second', {});
        return 'tag';
      },
      remove: async () => {},
    },
    async () => {},
  );
  store.apps.want(wanted('shop'));
  store.apps.setLive('shop', 'd1', 'first', {});
  await assert.rejects(records.stored('shop'), /away/);
  isAway = false;
  const first = records.stored('shop');
  await Promise.all([first, records.stored('shop')]);
  assert.deepEqual(writes, ['first', 'second']);
  assert.equal(store.records.changeOf('shop'), null);
});

test('a write of a record that arrives late replaces nothing newer', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const { store } = machine(t, place).open();
  const quick = new S3Store(place, { deadlineMs: 200 });
  const records = new AppRecords(store.records, quick, async () => {});
  store.apps.want(wanted('shop'));
  await records.stored('shop');
  const held = Promise.withResolvers<void>();
  bucket.faults = { holds: held.promise };
  const { length } = bucket.asked;
  store.apps.setLive('shop', 'd1', 'first', {});
  const stored = records.stored('shop');
  await eventually(() => bucket.asked.length > length, 'the first attempt is on its way');
  bucket.faults = {};
  await stored;
  store.apps.setLive('shop', 'd2', 'second', {});
  await records.stored('shop');
  held.resolve();
  const found = JSON.parse((await quick.read('records/shop.json')).toString('utf8'));
  assert.equal(found.deployedAt, 'second');
});

test('a record that the bucket does not take holds up no other', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store } = machine(t, bucket.place()).open();
  const quick = new S3Store(bucket.place(), { deadlineMs: 200 });
  const records = new AppRecords(store.records, quick, async () => {});
  bucket.refuses = (key) => key.includes('held');
  bucket.faults = { hangs: ({ key }) => key.includes('hung') };
  for (const id of ['held', 'hung', 'shop', ...Array.from({ length: 20 }, (_, n) => `app${n}`)])
    store.apps.want(wanted(id));
  const all = records.storeAll();
  await records.stored('shop');
  assert.notEqual(store.records.changeOf('hung'), null);
  await assert.rejects(all, /403|no whole answer/);
  assert.deepEqual(
    store.records
      .changed()
      .map(({ appId }) => appId)
      .sort(),
    ['held', 'hung'],
  );
});

test('alarms of taken apps are read once, and again after a failure or an end in between', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store } = machine(t, bucket.place()).open();
  const learnt: string[] = [];
  const app = (id: string) => ({ learn: async () => void learnt.push(id) });
  const { signal } = new AbortController();
  await learnDueTimes(store.records, [app('none')], signal);
  assert.deepEqual(learnt, []);
  store.records.take('one', []);
  const ending = new AbortController();
  const failing = { learn: () => Promise.reject(new Error('away')) };
  const interrupted = learnDueTimes(store.records, [app('a'), failing], ending.signal);
  await eventually(() => learnt.length === 1, 'one is read');
  ending.abort();
  await interrupted;
  await learnDueTimes(store.records, [app('a'), app('b')], signal);
  await learnDueTimes(store.records, [app('c')], signal);
  assert.deepEqual(learnt, ['a', 'a', 'b']);
});

test('a bucket of another Cellar is not taken, nor one that does not answer', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  await claimBucket(place, { cellar: 'one', machine: 'first', proof: proofOf(KEY, 'one') }, false);
  const { paths, config } = machine(t, place);
  await assert.rejects(
    continueFromBucket(config('b'.repeat(64)), paths),
    /another Cellar \(one\).*RUNNER_CLUSTER_KEY/,
  );
  bucket.cut();
  await assert.rejects(continueFromBucket(config(), paths), /bucket/);
  assert.equal(existsSync(paths.database), false);
});

test('a record lists the previews of its app', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store, records } = machine(t, bucket.place()).open();
  const listed = () => JSON.parse(bucket.objects.get('records/shop.json')!.body.toString('utf8')).previews;
  store.apps.want(wanted('shop'));
  store.apps.want(wanted('pr1'));
  await records.storeAll();
  assert.deepEqual(listed(), []);
  const row = { id: 'pr1', parentId: 'shop', name: 'pr1', source: 'refs/heads/a', versionId: null };
  store.previews.add({ ...row, createdAt: 1, expiresAt: 2 });
  await records.storeAll();
  assert.deepEqual(listed(), ['pr1']);
  store.previews.remove('pr1');
  await records.storeAll();
  assert.deepEqual(listed(), []);
});

test('of two hosts, only the one that took an app last writes its record, also after a restart', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const one = machine(t, place).open('one');
  const other = machine(t, place).open('other');
  one.store.apps.want({ ...wanted('shop'), home: 'one' });
  one.store.secrets.set('shop', 'KEY', Buffer.from('old'), AT);
  await one.records.storeAll();
  assert.equal(await one.records.isElsewhere('shop'), false);
  const taken = await other.records.take({ ...wanted('shop'), generation: 4, home: 'other' });
  other.store.transaction(() => other.store.records.takeOne(taken!));
  assert.deepEqual(other.store.secrets.all('shop'), one.store.secrets.all('shop'));
  assert.deepEqual(other.store.records.changed(), []);

  const { etag } = bucket.objects.get('records/shop.json')!;
  one.store.secrets.set('shop', 'KEY', Buffer.from('late'), AT);
  await assert.rejects(one.records.stored('shop'), OtherHome);
  const again = new AppRecords(one.store.records, new S3Store(place), async () => {}, 'one');
  await assert.rejects(again.stored('shop'), OtherHome);
  assert.equal(await again.isElsewhere('shop'), true);
  await again.storeAll();
  one.store.transaction(() => one.store.apps.delete('shop', 5, AT));
  await assert.rejects(again.stored('shop'), OtherHome);
  await again.leave('shop');
  assert.equal(bucket.objects.get('records/shop.json')!.etag, etag);
  other.store.secrets.set('shop', 'KEY', Buffer.from('new'), AT);
  await other.records.stored('shop');
  assert.notEqual(bucket.objects.get('records/shop.json')!.etag, etag);
});

test('a record that its old home changes while it is taken is taken with the change', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const one = machine(t, place).open('one');
  one.store.apps.want({ ...wanted('shop'), home: 'one' });
  await one.records.storeAll();
  const store = new S3Store(place);
  let reads = 0;
  const late = {
    etagOf: (name: string) => store.etagOf(name),
    writeIf: (...words: Parameters<S3Store['writeIf']>) => store.writeIf(...words),
    remove: (name: string) => store.remove(name),
    readTagged: async (name: string) => {
      const found = await store.readTagged(name);
      if (++reads > 1) return found;
      one.store.apps.setLive('shop', 'd2', AT, {});
      await one.records.stored('shop');
      return found;
    },
  };
  const { store: empty } = machine(t, place).open();
  const other = new AppRecords(empty.records, late, async () => {}, 'other');
  const [record] = (await other.take({ ...wanted('shop'), home: 'other' }))!;
  assert.equal(record!.liveDeployId, 'd2');
  assert.equal(reads, 2);
});
