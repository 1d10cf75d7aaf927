// Records of apps in the bucket: what another machine gets from them.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { DeployFact, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { newId } from '../../handlers/contract/id.ts';
import { claimBucket, proofOf } from '../../runtime/bucket/owner.ts';
import type { S3Place } from '../../runtime/bucket/place.ts';
import { AppRecords, OtherHome } from '../../runtime/bucket/records/app-records.ts';
import { continueFromBucket } from '../../runtime/bucket/records/continue.ts';
import { learnDueTimes } from '../../runtime/bucket/records/due-times.ts';
import { readRecord } from '../../runtime/bucket/records/record-content.ts';
import { S3Store } from '../../runtime/bucket/s3-store.ts';
import { readConfig } from '../../runtime/config.ts';
import { layout } from '../../runtime/disk/data-directory.ts';
import type { AppRecord } from '../../sqlite/host/app-records.ts';
import { type HostStore, openHostStore } from '../../sqlite/host/index.ts';
import type { StoredSource } from '../../sqlite/host/source/connections.ts';
import type { StoredPull } from '../../sqlite/host/source/pulls.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { cpuTime } from '../support/cpu-time.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const KEY = 'a'.repeat(64);
const AT = '2026-11-27T10:00:00.000Z';
/** The ids of two apps, two previews and two deploys. */
const [SHOP, HERE, PR1, PR2, D1, D2] = ['shop', 'here', 'pr1', 'pr2', 'd1', 'd2'].map((name) =>
  name.padEnd(16, '0'),
) as [string, string, string, string, string, string];

const CONNECTION: StoredSource = {
  url: 'ssh://git@git.example/ada/shop',
  branch: 'main',
  deploy_on: 'main',
  poll_minutes: 5,
  has_token: false,
  deploy_key: 'ssh-ed25519 AAAA cellar-shop',
  known_hosts: [],
};

function pull(number: number, rest: Partial<StoredPull> = {}): StoredPull {
  return {
    ...{
      host: 'github',
      number,
      title: 'A change',
      author: 'mallory',
      sha: '1'.repeat(40),
      state: 'waiting',
    },
    ...{ is_inside: false, is_member: null, changed_at: 1, approved_sha: null, attempts: 0, error: null },
    ...{ reported: null, comment: null, updated_at: AT, ...rest },
  };
}

function wanted(id: string, storage: 'bucket' | 'local' = 'bucket'): WantedApp {
  return {
    ...{ id, slug: id, generation: 3, storage, desired_state: 'running', env: { A: '1' } },
    ...{ hostnames: [], limits: { clientRpm: null, appRpm: null } },
  };
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
  store.apps.want(wanted(SHOP));
  store.apps.want(wanted(HERE, 'local'));
  store.deploys.save(fact(D1, SHOP, {}));
  store.deploys.save(fact(D2, SHOP, { status: 'live' }), D1);
  store.apps.setLive(SHOP, D2, AT, { databases: { DB: 'db1' } }, ['orders']);
  store.secrets.set(SHOP, 'KEY', Buffer.from([0, 255]), AT);
  store.apps.setSleep(SHOP, { asleepSince: AT, wokeAt: null });
  store.apps.setOutbound(SHOP, 'egress');
  store.apps.want({ ...wanted(PR1), slug: 'pr1-shop' });
  const preview = {
    id: PR1,
    parentId: SHOP,
    name: PR1,
    source: 'refs/heads/a',
    versionId: null,
    createdAt: 1,
    expiresAt: 2,
  };
  store.previews.add(preview);
  store.sources.save(SHOP, CONNECTION, Buffer.from([1, 255]), null);
  store.sources.pin(store.sources.find(SHOP)!, ['git.example ssh-ed25519 AAAA']);
  const approved = pull(1, { state: 'live', approved_sha: '1'.repeat(40), comment: 5 });
  store.pulls.save(SHOP, approved, null);
  store.pulls.save(SHOP, pull(2, { state: 'queued' }), 7);
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
    wanted: wanted(SHOP),
    liveDeployId: D2,
    deployedAt: AT,
    consumes: ['orders'],
    sleep: { asleepSince: AT, wokeAt: null },
  });
  assert.equal(found.apps.outbound(SHOP), 'egress');
  assert.deepEqual(found.apps.storageNames(SHOP), { databases: { DB: 'db1' } });
  assert.deepEqual(found.deploys.last(SHOP, 5), store.deploys.last(SHOP, 5));
  assert.deepEqual(found.secrets.all(SHOP), store.secrets.all(SHOP));
  const connection = found.sources.find(SHOP)!;
  assert.deepEqual(connection.source, { ...CONNECTION, known_hosts: ['git.example ssh-ed25519 AAAA'] });
  assert.deepEqual(connection.sealed, Buffer.from([1, 255]));
  assert.equal(connection.dueAt, 0, 'deliveries may have been missed, so it is fetched at once');
  assert.deepEqual(found.pulls.find(SHOP, 1), { appId: SHOP, pull: approved, dueAt: null });
  assert.deepEqual(found.pulls.find(SHOP, 2)?.dueAt, 7);
  assert.deepEqual(
    found.previews.all().map(({ id, parentId }) => [id, parentId]),
    [[PR1, SHOP]],
  );
  assert.deepEqual(found.activity.all().get(SHOP), { lastRequestAt: null, resting: true, dueAt: null });
  assert.deepEqual(found.records.changed(), [], 'nothing is written again');
});

test('each change of an app is in its record, and a deleted app has none', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store, records } = machine(t, bucket.place()).open();
  const record = () => {
    const object = bucket.objects.get(`records/${SHOP}.json`);
    return object === undefined ? null : JSON.parse(object.body.toString('utf8'));
  };
  store.apps.want(wanted(SHOP));
  await records.stored(SHOP);
  assert.equal(record().liveDeployId, null);
  store.deploys.save(fact(D1, SHOP, { can_roll_back: false }));
  assert.equal(store.records.changeOf(SHOP), null, 'a deploy that is under way is no change');
  const changes: [() => void, (found: ReturnType<typeof record>) => unknown, unknown][] = [
    [() => store.deploys.save(fact(D1, SHOP, {})), (found) => found.deploys[0].fact.can_roll_back, true],
    [() => store.apps.setLive(SHOP, D1, AT, {}), (found) => found.liveDeployId, D1],
    [
      () => store.apps.setStorageNames(SHOP, { namespaces: { KV: 'k' } }),
      (found) => found.storageNames.namespaces.KV,
      'k',
    ],
    [() => store.secrets.set(SHOP, 'A', Buffer.from('x'), AT), (found) => found.secrets.length, 1],
    [() => store.secrets.delete(SHOP, 'A'), (found) => found.secrets.length, 0],
    [
      () => store.alerts.save({ id: 'alert', app_id: SHOP } as never),
      (found) => found.alerts[0].deliveries.length,
      0,
    ],
    [
      () => store.alerts.addDelivery('message', 'alert', '{}', 1, 'memory'),
      (found) => found.alerts[0].deliveries[0].body + found.alerts[0].deliveries[0].state,
      '{}memory',
    ],
    [() => store.alerts.dropDelivery('message'), (found) => found.alerts[0].deliveries.length, 0],
    [() => store.alerts.delete('alert'), (found) => found.alerts.length, 0],
    [
      () => store.sources.save(SHOP, CONNECTION, Buffer.from([1]), null),
      (found) => found.connection.source.url,
      CONNECTION.url,
    ],
    [() => store.pulls.save(SHOP, pull(1), 5), (found) => found.pulls[0].pull.state, 'waiting'],
    [
      () => store.pulls.save(SHOP, pull(1, { approved_sha: '1'.repeat(40) }), 5),
      (found) => found.pulls[0].pull.approved_sha,
      '1'.repeat(40),
    ],
    [() => store.pulls.delete(SHOP), (found) => found.pulls.length, 0],
  ];
  for (const [change, of, expected] of changes) {
    change();
    assert.notEqual(store.records.changeOf(SHOP), null);
    await records.stored(SHOP);
    assert.equal(of(record()), expected);
  }
  store.apps.delete(SHOP, 4, AT);
  await records.stored(SHOP);
  assert.equal(record(), null);
  store.apps.want(wanted(HERE, 'local'));
  store.secrets.set(HERE, 'A', Buffer.from('x'), AT);
  assert.deepEqual(store.records.changed(), []);
});

test('the record of an app has its open pull requests before those that are closed', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store } = machine(t, bucket.place()).open();
  store.apps.want(wanted(SHOP));
  store.sources.save(SHOP, CONNECTION, Buffer.from([1]), null);
  store.pulls.save(SHOP, pull(1, { updated_at: '2026-01-01T00:00:00.000Z' }), null);
  for (let number = 2; number < 200; number++)
    store.pulls.save(SHOP, pull(number, { state: 'closed' }), null);
  const { pulls = [] } = store.records.read(SHOP) as AppRecord;
  assert.deepEqual([pulls.length, pulls[0]!.pull.number], [50, 1]);
});

test('the record of an app has only the newest messages of its alerts', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store } = machine(t, bucket.place()).open();
  store.apps.want(wanted(SHOP));
  for (const id of ['first', 'second']) store.alerts.save({ id, app_id: SHOP } as never);
  const add = (count: number, length: number) =>
    store.transaction(() => {
      for (let n = 0; n < count; n++)
        store.alerts.addDelivery(newId(), n % 2 === 0 ? 'first' : 'second', 'x'.repeat(length), n);
    });
  const lengths = () =>
    (store.records.read(SHOP) as AppRecord).alerts.map(({ deliveries = [] }) =>
      deliveries.map(({ body }) => body.length),
    );
  add(5_000, 2_000);
  const spent = cpuTime();
  assert.deepEqual(lengths(), [Array(16).fill(2_000), Array(16).fill(2_000)]);
  assert.ok(spent() < 200, `${spent()} ms`);
  add(2, 30_000);
  assert.deepEqual(lengths(), [
    [2_000, 30_000],
    [2_000, 30_000],
  ]);
  add(60, 10);
  assert.deepEqual(lengths(), [Array(25).fill(10), Array(25).fill(10)]);
});

test('the folder of a deleted app is removed by the machine that continues', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const first = machine(t, place).open();
  const { store } = first;
  store.apps.want(wanted(SHOP));
  store.transaction(() => {
    store.apps.delete(SHOP, 4, AT);
    store.folderRemovals.add(SHOP, AT);
  });
  await first.records.storeAll();
  const cellar = store.snapshots.cellar();
  await claimBucket(place, { cellar, machine: 'first', proof: proofOf(KEY, cellar) }, false);
  const next = machine(t, place);
  await continueFromBucket(next.config(), next.paths);
  const found = next.open();
  assert.deepEqual([found.store.apps.all(), found.store.folderRemovals.due(AT)], [[], [SHOP]]);
  found.store.folderRemovals.delete(SHOP);
  await found.records.storeAll();
  assert.ok(!bucket.objects.has(`records/${SHOP}.json`));
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

test('a repository of which only what people name is deployed is not fetched because its app has moved', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store } = machine(t, bucket.place()).open();
  store.apps.want(wanted(SHOP));
  store.sources.save(SHOP, { ...CONNECTION, deploy_on: 'manual' }, Buffer.from([1]), null);
  const record = store.records.read(SHOP);
  store.transaction(() => store.records.takeOne([record as AppRecord]));
  assert.equal(store.sources.find(SHOP)!.dueAt, null);
});

test('records of previews that are no more do not stop a machine that continues', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const first = machine(t, place).open();
  const { store } = first;
  const preview = (id: string, createdAt: number) => {
    store.apps.want(wanted(id));
    const row = { id, parentId: SHOP, name: id, source: 'refs/heads/a', versionId: null, expiresAt: 9 };
    store.previews.add({ ...row, createdAt });
  };
  store.apps.want(wanted(SHOP));
  preview(PR1, 1);
  await first.records.storeAll();
  const older = bucket.objects.get(`records/${PR1}.json`)!;
  store.previews.remove(PR1);
  preview(PR2, 2);
  await first.records.storeAll();
  bucket.objects.set(`records/${PR1}.json`, older);
  const cellar = store.snapshots.cellar();
  await claimBucket(place, { cellar, machine: 'first', proof: proofOf(KEY, cellar) }, false);
  const next = machine(t, place);
  await continueFromBucket(next.config(), next.paths);
  assert.deepEqual(
    next
      .open()
      .store.previews.all()
      .map(({ id }) => id),
    [PR2],
  );

  bucket.objects.delete(`records/${SHOP}.json`);
  const last = machine(t, place);
  await continueFromBucket(last.config(), last.paths);
  const { store: found } = last.open();
  assert.deepEqual([found.previews.all(), found.folderRemovals.due(AT)], [[], [PR1, PR2]]);
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
        if (writes.length === 1) store.apps.setLive(SHOP, D2, 'second', {});
        return 'tag';
      },
      remove: async () => {},
    },
    async () => {},
  );
  store.apps.want(wanted(SHOP));
  store.apps.setLive(SHOP, D1, 'first', {});
  await assert.rejects(records.stored(SHOP), /away/);
  isAway = false;
  const first = records.stored(SHOP);
  await Promise.all([first, records.stored(SHOP)]);
  assert.deepEqual(writes, ['first', 'second']);
  assert.equal(store.records.changeOf(SHOP), null);
});

test('a write of a record that arrives late replaces nothing newer', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const { store } = machine(t, place).open();
  const quick = new S3Store(place, { deadlineMs: 200 });
  const records = new AppRecords(store.records, quick, async () => {});
  store.apps.want(wanted(SHOP));
  await records.stored(SHOP);
  const held = Promise.withResolvers<void>();
  bucket.faults = { holds: held.promise };
  const { length } = bucket.asked;
  store.apps.setLive(SHOP, D1, 'first', {});
  const stored = records.stored(SHOP);
  await eventually(() => bucket.asked.length > length, 'the first attempt is on its way');
  bucket.faults = {};
  await stored;
  store.apps.setLive(SHOP, D2, 'second', {});
  await records.stored(SHOP);
  held.resolve();
  const found = JSON.parse((await quick.read(`records/${SHOP}.json`)).toString('utf8'));
  assert.equal(found.deployedAt, 'second');
});

test('a record that the bucket does not take holds up no other', async (t) => {
  await using bucket = await new MemoryStore().start();
  const { store } = machine(t, bucket.place()).open();
  const quick = new S3Store(bucket.place(), { deadlineMs: 200 });
  const records = new AppRecords(store.records, quick, async () => {});
  bucket.refuses = (key) => key.includes('held');
  bucket.faults = { hangs: ({ key }) => key.includes('hung') };
  for (const id of ['held', 'hung', SHOP, ...Array.from({ length: 20 }, (_, n) => `app${n}`)])
    store.apps.want(wanted(id));
  const all = records.storeAll();
  await records.stored(SHOP);
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

test('a record that leads elsewhere, or is damaged, is refused by name, and nothing is taken', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place('of/cellar/');
  const { store, records } = machine(t, place).open();
  store.apps.want(wanted(SHOP));
  store.deploys.save(fact(D1, SHOP, {}));
  store.apps.setLive(SHOP, D1, AT, { databases: { DB: 'db1' } });
  await records.stored(SHOP);
  const cellar = store.snapshots.cellar();
  await claimBucket(place, { cellar, machine: 'first', proof: proofOf(KEY, cellar) }, false);
  const name = `of/cellar/records/${SHOP}.json`;
  const object = bucket.objects.get(name)!;
  const record = JSON.parse(object.body.toString('utf8'));
  assert.deepEqual(readRecord(object.body, SHOP), record);
  const { wanted: own } = record;
  const deploy = record.deploys[0];
  const builds = {
    root_directory: '../..',
    install_command: null,
    build_command: null,
    output_directory: null,
  };
  const damaged: [string, RegExp][] = [
    ['', /JSON/],
    ['null', /format is undefined/],
    ['{"format":2}', /format is 2.*start a newer one/],
    ...[
      { wanted: { ...own, id: '../../../outside' } },
      { wanted: { ...own, id: 'control' } },
      { wanted: { ...own, slug: 'a/../b' } },
      { wanted: { ...own, hostnames: ['a b'] } },
      { wanted: { ...own, builds } },
      { wanted: { ...own, env: { A: 1 } } },
      { liveDeployId: '../../../etc' },
      { deploys: [{ ...deploy, fact: { ...deploy.fact, id: '../d1' } }] },
      { deploys: [{ ...deploy, fact: { ...deploy.fact, sha: '--upload-pack=x' } }] },
      { deploys: [{ ...deploy, releaseOf: '..' }] },
      { storageNames: { databases: { DB: '../../x' } } },
      { storageNames: { classes: { A: { id: '..', sql: true } } } },
      { secrets: [{ name: 'A', sealed: 3, createdAt: AT, updatedAt: AT }] },
      { secrets: null },
    ].map((change): [string, RegExp] => [
      JSON.stringify({ ...record, ...change }),
      new RegExp(`: ${Object.keys(change)[0]}\\S*: `),
    ]),
    [JSON.stringify({ ...record, wanted: { ...own, id: PR1 } }), /id of another app/],
    [JSON.stringify({ format: 1, deletedApp: '..', removeAt: AT }), /deletedApp: must be an id/],
    [JSON.stringify({ format: 1, deletedApp: PR1, removeAt: AT }), /id of another app/],
  ];
  for (const [text, why] of damaged) {
    bucket.objects.set(name, { ...object, body: Buffer.from(text) });
    const next = machine(t, place);
    await assert.rejects(continueFromBucket(next.config(), next.paths), (error: Error) => {
      assert.ok(error.message.startsWith(`${name} in the bucket cannot be used: `), error.message);
      assert.match(error.message, why);
      assert.match(error.message, /Repair it, or remove it to leave that app out$|start a newer one/);
      return true;
    });
    assert.equal(existsSync(next.paths.database), false);
  }
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
  const listed = () => JSON.parse(bucket.objects.get(`records/${SHOP}.json`)!.body.toString('utf8')).previews;
  store.apps.want(wanted(SHOP));
  store.apps.want(wanted(PR1));
  await records.storeAll();
  assert.deepEqual(listed(), []);
  const row = { id: PR1, parentId: SHOP, name: PR1, source: 'refs/heads/a', versionId: null };
  store.previews.add({ ...row, createdAt: 1, expiresAt: 2 });
  await records.storeAll();
  assert.deepEqual(listed(), [PR1]);
  store.previews.remove(PR1);
  await records.storeAll();
  assert.deepEqual(listed(), []);
});

test('of two hosts, only the one that took an app last writes its record, also after a restart', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const one = machine(t, place).open('one');
  const other = machine(t, place).open('other');
  one.store.apps.want({ ...wanted(SHOP), home: 'one' });
  one.store.secrets.set(SHOP, 'KEY', Buffer.from('old'), AT);
  await one.records.storeAll();
  assert.equal(await one.records.isElsewhere(SHOP), false);
  const taken = await other.records.take({ ...wanted(SHOP), generation: 4, home: 'other' });
  other.store.transaction(() => other.store.records.takeOne(taken!));
  assert.deepEqual(other.store.secrets.all(SHOP), one.store.secrets.all(SHOP));
  assert.deepEqual(other.store.records.changed(), []);

  const { etag } = bucket.objects.get(`records/${SHOP}.json`)!;
  one.store.secrets.set(SHOP, 'KEY', Buffer.from('late'), AT);
  await assert.rejects(one.records.stored(SHOP), OtherHome);
  const again = new AppRecords(one.store.records, new S3Store(place), async () => {}, 'one');
  await assert.rejects(again.stored(SHOP), OtherHome);
  assert.equal(await again.isElsewhere(SHOP), true);
  await again.storeAll();
  one.store.transaction(() => one.store.apps.delete(SHOP, 5, AT));
  await assert.rejects(again.stored(SHOP), OtherHome);
  await again.leave(SHOP);
  assert.equal(bucket.objects.get(`records/${SHOP}.json`)!.etag, etag);
  other.store.secrets.set(SHOP, 'KEY', Buffer.from('new'), AT);
  await other.records.stored(SHOP);
  assert.notEqual(bucket.objects.get(`records/${SHOP}.json`)!.etag, etag);
});

test('a record that its old home changes while it is taken is taken with the change', async (t) => {
  await using bucket = await new MemoryStore().start();
  const place = bucket.place();
  const one = machine(t, place).open('one');
  one.store.apps.want({ ...wanted(SHOP), home: 'one' });
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
      one.store.apps.setLive(SHOP, D2, AT, {});
      await one.records.stored(SHOP);
      return found;
    },
  };
  const { store: empty } = machine(t, place).open();
  const other = new AppRecords(empty.records, late, async () => {}, 'other');
  const [record] = (await other.take({ ...wanted(SHOP), home: 'other' }))!;
  assert.equal(record!.liveDeployId, D2);
  assert.equal(reads, 2);
});
