// Hosts that join a Cellar of several, with empty data directories.
import assert from 'node:assert/strict';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { readOwner } from '../../runtime/bucket/owner.ts';
import type { S3Place } from '../../runtime/bucket/place.ts';
import { continueFromBucket } from '../../runtime/bucket/records/continue.ts';
import { shareSecrets } from '../../runtime/bucket/records/secrets.ts';
import { readConfig } from '../../runtime/config.ts';
import { layout, writeAtomic } from '../../runtime/disk/data-directory.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { bucketSettings } from '../support/bucket/settings.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const KEY = 'c'.repeat(64);

/** Makes a host with an empty data directory. @param address its RUNNER_ADDRESS */
function host(t: TestContext, place: S3Place, address: string) {
  const paths = layout(join(temporaryDirectory(t), 'data'));
  const settings = { ...bucketSettings(place), RUNNER_DATA_DIR: paths.root, RUNNER_ADDRESS: address };
  const start = () => continueFromBucket(readConfig(settings), paths);
  const facts = () => {
    const store = openHostStore(paths.database);
    try {
      const { apps, snapshots } = store;
      const ids = { cellar: snapshots.cellar(), machine: snapshots.machine() };
      return { ...ids, apps: apps.all().length, hasJoined: store.records.hasJoined() };
    } finally {
      store.close();
    }
  };
  const secrets = () =>
    [paths.hostSecret, paths.apiKey, paths.secretsKey].map((path) => readFileSync(path, 'utf8'));
  return { paths, start, facts, secrets };
}

const APP = 'a'.repeat(16);

/** Adds an app's record to the bucket, in the format that the app's home host writes. */
function addRecord(store: MemoryStore): void {
  const record = {
    format: 1,
    wanted: {
      id: APP,
      slug: 'shop',
      generation: 1,
      storage: 'bucket',
      desired_state: 'running',
      hostnames: [],
      env: {},
      limits: { clientRpm: null, appRpm: null },
    },
    preview: null,
    liveDeployId: null,
    deployedAt: null,
    consumes: [],
    storageNames: {},
    asleepSince: null,
    wokeAt: null,
    secrets: [],
    deploys: [],
    alerts: [],
  };
  const body = Buffer.from(JSON.stringify(record));
  store.objects.set(`records/${APP}.json`, { body, etag: '"r"', at: new Date().toISOString() });
}

test('three empty hosts that start at once are one Cellar with the same secrets', async (t) => {
  await using store = await new MemoryStore().start();
  const hosts = [1, 2, 3].map((n) => host(t, store.place(), `10.0.0.${n}`));
  await Promise.all(hosts.map(({ start }) => start()));
  const facts = hosts.map((each) => each.facts());
  assert.equal(new Set(facts.map(({ cellar }) => cellar)).size, 1);
  assert.equal(new Set(facts.map(({ machine }) => machine)).size, 3);
  assert.equal(facts.filter(({ hasJoined }) => !hasJoined).length, 1, 'one of them has begun it');
  for (const { secrets } of hosts) assert.deepEqual(secrets(), hosts[0]!.secrets());
  const { several, machine, cellar } = (await readOwner(store.place()))!;
  assert.deepEqual([several, machine, cellar], [true, undefined, facts[0]!.cellar]);
});

test('a host that joins takes no apps, and one that continues the Cellar of a lost machine takes all', async (t) => {
  await using store = await new MemoryStore().start();
  const first = host(t, store.place(), '10.0.0.1');
  await first.start();
  addRecord(store);
  const joining = host(t, store.place(), '10.0.0.2');
  await joining.start();
  assert.equal(joining.facts().apps, 0);
  const owner = JSON.parse(store.objects.get('cellar.json')!.body.toString());
  const body = Buffer.from(JSON.stringify({ cellar: owner.cellar, machine: 'lost', proof: owner.proof }));
  store.objects.set('cellar.json', { body, etag: '"l"', at: new Date().toISOString() });
  const next = host(t, store.place(), '10.0.0.3');
  await next.start();
  assert.equal(next.facts().apps, 1);
  assert.deepEqual([joining.facts().hasJoined, next.facts().hasJoined], [true, false]);
  assert.equal((await readOwner(store.place()))!.several, true);
});

test('a host without an address, or with another cluster key, joins nothing', async (t) => {
  await using store = await new MemoryStore().start();
  await host(t, store.place(), '10.0.0.1').start();
  await assert.rejects(
    host(t, store.place(), '').start(),
    /several hosts have this Cellar: set RUNNER_ADDRESS/,
  );
  const { paths } = host(t, store.place(), '10.0.0.2');
  const settings = {
    ...bucketSettings(store.place()),
    RUNNER_DATA_DIR: paths.root,
    RUNNER_ADDRESS: '10.0.0.2',
  };
  const stranger = continueFromBucket(readConfig({ ...settings, RUNNER_CLUSTER_KEY: 'd'.repeat(64) }), paths);
  await assert.rejects(stranger, /it has the data of another Cellar .* set its RUNNER_CLUSTER_KEY/);
});

test('a host with another secret does not change those of the others, and a new kind of secret is added', async (t) => {
  await using store = await new MemoryStore().start();
  const [first, second] = [1, 2].map((n) => host(t, store.place(), `10.0.0.${n}`)) as [
    ReturnType<typeof host>,
    ReturnType<typeof host>,
  ];
  await first.start();
  await second.start();
  const before = store.objects.get('secrets.json')!.etag;
  await shareSecrets(store.place(), second.paths, KEY);
  assert.equal(store.objects.get('secrets.json')!.etag, before, 'nothing is written again');
  rmSync(first.paths.alertKey);
  await shareSecrets(store.place(), first.paths, KEY);
  assert.equal(store.objects.get('secrets.json')!.etag, before, 'a secret that this host lacks stays');
  writeAtomic(second.paths.hostSecret, 'another\n');
  await assert.rejects(
    shareSecrets(store.place(), second.paths, KEY),
    /the other hosts have another host-secret than this one: move this data directory away/,
  );
});
