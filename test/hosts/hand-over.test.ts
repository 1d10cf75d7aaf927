// Moves of an app between hosts. The new home has every acknowledged write, and only one host writes the app's record.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { DeployFact, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { Apps } from '../../runtime/apps/apps.ts';
import { StaleGeneration } from '../../runtime/apps/known/open-apps.ts';
import { OutwardServices } from '../../runtime/apps/outward-services.ts';
import { Secrets } from '../../runtime/apps/secrets.ts';
import { Bucket } from '../../runtime/bucket/bucket.ts';
import { type Layout, layout } from '../../runtime/disk/data-directory.ts';
import type { Admission } from '../../runtime/edge/upstream/backend.ts';
import { MemoryGauge } from '../../runtime/fleets/admission/memory.ts';
import { Slots } from '../../runtime/fleets/admission/slots.ts';
import { WakeFigures } from '../../runtime/fleets/admission/wake-figures.ts';
import { lineSink } from '../../runtime/fleets/process/cell-output.ts';
import { Gate } from '../../runtime/hosts/gate.ts';
import { Homes } from '../../runtime/hosts/homes.ts';
import { MovedAway } from '../../runtime/hosts/moved-away.ts';
import { Buckets } from '../../runtime/storage/r2/buckets.ts';
import { type HostStore, openHostStore } from '../../sqlite/host/index.ts';
import { MemoryStore } from '../support/bucket/memory-store.ts';
import { askUpstream } from '../support/edge/ask.ts';
import { makeRelease, workerd } from '../support/fleets/release.ts';
import { liveFiles } from '../support/live-files.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const SHA = '1'.repeat(40);
const APP = 'a'.repeat(16);
const PREVIEW = 'b'.repeat(16);
const SECOND = 's'.repeat(16);
const DEPLOYS = ['1', '2'].map((digit) => digit.repeat(16)) as [string, string];
const AT = '2026-11-27T10:00:00.000Z';
const RECORD = `of/cellar/records/${APP}.json`;

const CODE = (version: number) => `
import { DurableObject } from 'cloudflare:workers';
export class Counter extends DurableObject {
  async add() {
    const n = ((await this.ctx.storage.get('n')) ?? 0) + 1;
    await this.ctx.storage.put('n', n);
    return n;
  }
  wakeAt(time) { return this.ctx.storage.setAlarm(time); }
  alarm() {}
}
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    const counter = env.COUNTER.getByName('one');
    if (pathname.startsWith('/alarm/')) await counter.wakeAt(Number(pathname.slice(7)));
    if (pathname !== '/add') return new Response('${version} ' + (env.KEY ?? ''));
    return new Response(String(await counter.add()));
  },
};`;

const STORAGE = {
  classes: [{ className: 'Counter', storageId: 'counter', sql: true }],
  durableObjects: [{ binding: 'COUNTER', className: 'Counter' }],
};

interface TestHost {
  self: string;
  store: HostStore;
  paths: Layout;
  secrets: Secrets;
  bucket: Bucket;
  apps: Apps;
  /** Ids of apps that came from other hosts. */
  arrived: string[];
  others: TestHost[];
  /** Resolves when the next app arrives. */
  changed: () => Promise<void>;
  close: () => Promise<void>;
}

/** The hosts that use a store. They close before the store does. */
const opened = new WeakMap<MemoryStore, TestHost[]>();

async function storeOf(t: TestContext): Promise<MemoryStore> {
  const memory = await new MemoryStore().start();
  const hosts: TestHost[] = [];
  opened.set(memory, hosts);
  t.after(async () => {
    await Promise.all(hosts.map((host) => host.close()));
    await memory[Symbol.asyncDispose]();
  });
  return memory;
}

/** Opens one of several hosts, in a data directory of its own. */
async function open(memory: MemoryStore, root: string, gate?: Gate): Promise<TestHost> {
  const paths = layout(root);
  const store = openHostStore(paths.database);
  const self = store.snapshots.machine();
  const users = () => ({ build: null, cell: null });
  const bucket = new Bucket({
    ...{ place: memory.place('of/cellar/'), clusterKey: 'c'.repeat(64), claim: async () => {} },
    ...{ user: () => null, paths, records: store.records, removals: store.folderRemovals, self },
    floorMb: 0,
    ...(gate && { hosts: { host: '127.0.0.1', gate } }),
  });
  mkdirSync(paths.builds, { recursive: true });
  await bucket.serve();
  const secrets = new Secrets(store, 'k'.repeat(43));
  let changed = Promise.withResolvers<void>();
  const arrived: string[] = [];
  const others: TestHost[] = [];
  const apps = new Apps({
    ...{ bucket, store, paths, workerd, users, baseDomain: 'localhost', idleMs: 60_000, egress: [], secrets },
    ...{ memoryMb: 512, cacheMb: 0, slots: new Slots(4, 10_000), memory: new MemoryGauge(0, 512) },
    buckets: new Buckets({ paths, users, service: { maxMb: 0, floorMb: 0 } }),
    services: () => ({ hasOutbound: false, socket: '/dev/null/none', open: async () => {} }),
    outward: new OutwardServices({ paths, users, ai: null, mail: null }),
    wakes: new WakeFigures(),
    ...{ uiUrl: () => null, output: () => lineSink(() => {}), say: () => {} },
    ...{ onUsage: () => {}, onNamed: () => {}, onDeleted: () => {}, onFailure: () => {}, onFacts: () => {} },
    hosts: {
      self,
      endDeploys: async () => {},
      left: (id, to, hostname) => {
        const next = others.find((other) => other.self === to)!;
        const admit = (): Admission =>
          next.apps.resolve(hostname)?.admit() ?? { kind: 'hold', ready: next.changed() };
        return { site: id, admit };
      },
      ended: () => {},
    },
    onRestored: (id) => {
      arrived.push(id);
      changed.resolve();
      changed = Promise.withResolvers();
    },
  });
  let closed: Promise<void> | null = null;
  const close = () => {
    closed ??= apps.close().then(async () => {
      await bucket.close();
      store.close();
    });
    return closed;
  };
  const host = { self, store, paths, secrets, bucket, apps, arrived, others, close };
  const known = { ...host, changed: () => changed.promise };
  opened.get(memory)!.push(known);
  return known;
}

async function two(t: TestContext, memory: MemoryStore): Promise<[TestHost, TestHost]> {
  const one = await open(memory, temporaryDirectory(t));
  const other = await open(memory, temporaryDirectory(t));
  one.others.push(other);
  other.others.push(one);
  return [one, other];
}

let generation = 0;

function wanted(home: TestHost, change: Partial<WantedApp> = {}): WantedApp {
  return {
    ...{ id: APP, slug: 'shop', generation: ++generation, storage: 'bucket', desired_state: 'running' },
    ...{ hostnames: [], env: {}, limits: { clientRpm: null, appRpm: null }, home: home.self },
    ...change,
  };
}

/** Makes a release live, as a deploy does. */
async function deploy({ apps, store, paths, bucket }: TestHost, id: string, deployId: string): Promise<void> {
  await makeRelease(paths.release(id, deployId), CODE(DEPLOYS.indexOf(deployId) + 1), STORAGE);
  await apps.get(id)!.code!.releases.store(deployId);
  const fact = {
    ...{ id: deployId, app_id: id, sha: 'f'.repeat(40), ref: 'refs/heads/main', trigger: 'push' },
    ...{ status: 'live', can_roll_back: true, steps: [], created_at: AT },
  } as unknown as DeployFact;
  await apps.makeLive(id, deployId, {
    commit: (at) => {
      store.deploys.save(fact);
      store.apps.setLive(id, deployId, at, {});
    },
    log: () => {},
  });
  await bucket.records.stored(id);
}

/** Moves the app as the control plane does. */
async function rehome(from: TestHost, to: TestHost): Promise<void> {
  await to.apps.arrivals.prepare(APP);
  await from.apps.departures.handOver(APP, to.self, ++generation);
  await to.apps.apply(wanted(to));
  await to.bucket.records.stored(APP);
}

/** Asks the app as the gateway of a host does. */
async function ask(at: TestHost, path: string, name = 'shop'): Promise<string> {
  const hostname = `${name}.localhost`;
  const find = () =>
    [at, ...at.others].map(({ apps }) => apps.resolve(hostname)).find((fleet) => fleet !== undefined);
  let backend: { admit: () => Admission } | undefined = find();
  for (;;) {
    // During a move there may be no host that knows the app.
    if (backend === undefined) {
      await Promise.race([at, ...at.others].map(({ changed }) => changed()));
      backend = find();
      continue;
    }
    const admission = backend.admit();
    if (admission.kind === 'refuse') throw new Error(`${admission.status} ${admission.detail}`);
    if (admission.kind === 'hold') {
      await admission.ready;
      continue;
    }
    assert.ok(admission.kind === 'forward');
    const { status, text } = await askUpstream(admission.upstream, path);
    assert.equal(status, 200, text);
    return text;
  }
}

function recordOf(memory: MemoryStore) {
  return JSON.parse(memory.objects.get(RECORD)!.body.toString('utf8'));
}

test('an app moves between hosts under load: no request fails, and no write is lost or made twice', {
  timeout: 180_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  const counts: number[] = [];
  let longestMs = 0;
  let isOver = false;
  const writer = async () => {
    while (!isOver) {
      const from = performance.now();
      counts.push(Number(await ask(one, '/add')));
      longestMs = Math.max(longestMs, performance.now() - from);
    }
  };
  const writers = [writer(), writer(), writer()];
  const more = async () => {
    const { length } = counts;
    await Promise.race([eventually(() => counts.length > length + 20, 'writes go on'), ...writers]);
  };
  await more();
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    await rehome(from, to);
    await more();
    assert.equal(from.apps.get(APP), undefined);
    assert.equal(recordOf(memory).wanted.home, to.self);
    assert.equal(existsSync(from.paths.run(APP)), false);
  }
  isOver = true;
  await Promise.all(writers);
  const sorted = counts.toSorted((a, b) => a - b);
  assert.deepEqual(
    sorted,
    sorted.map((_, n) => n + 1),
  );
  assert.ok(longestMs < 10_000, `${longestMs} ms: the next process waited for a lease`);
});

test('its preview, secrets, alerts and releases come with it, and it goes back to an earlier release there', {
  timeout: 120_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  one.secrets.change(APP, { KEY: 'open' });
  one.store.alerts.save({ id: 'alert', app_id: APP, url: 'https://example.com' } as never);
  one.store.alerts.addDelivery('message', 'alert', '{"text":"late"}', Date.now() + 600_000);
  one.store.sources.save(APP, { url: 'https://git.example/shop' } as never, Buffer.from('keys'), null);
  one.store.pulls.save(APP, { number: 12, sha: SHA, approved_sha: SHA, state: 'live' } as never, null);
  for (const id of DEPLOYS) await deploy(one, APP, id);
  one.apps.addPreview({
    ...{ id: PREVIEW, parentId: APP, name: 'side', source: 'refs/heads/side', versionId: null },
    ...{ createdAt: Date.now(), expiresAt: Date.now() + 600_000 },
  });
  await deploy(one, PREVIEW, DEPLOYS[0]);
  assert.equal(await ask(one, '/add', 'side--shop'), '1');
  const times = { createdAt: Date.now(), expiresAt: Date.now() + 600_000 };
  const second = { id: SECOND, parentId: APP, name: 'split-1', source: 'split:1', versionId: DEPLOYS[0] };
  one.apps.addPreview({ ...second, ...times, share: null });
  await deploy(one, SECOND, DEPLOYS[0]);
  one.apps.share(SECOND, 25);
  await one.bucket.records.storeAll();

  await rehome(one, other);
  assert.deepEqual(other.arrived, [APP, PREVIEW, SECOND]);
  assert.deepEqual([other.apps.get(APP)!.second?.app.id, other.apps.get(APP)!.second?.share], [SECOND, 25]);
  assert.equal(await ask(one, '/'), '2 open');
  assert.equal(await ask(one, '/add', 'side--shop'), '2');
  assert.deepEqual(
    other.store.alerts.all().map(({ id }) => id),
    ['alert'],
  );
  assert.equal(other.store.alerts.firstDelivery('alert')?.body, '{"text":"late"}');
  assert.equal(one.store.alerts.firstDelivery('alert'), undefined);
  assert.equal(other.store.pulls.find(APP, 12)?.pull.approved_sha, SHA);
  assert.equal(one.store.pulls.find(APP, 12), undefined);
  assert.equal(other.store.deploys.find(APP, DEPLOYS[0])!.can_roll_back, true);
  assert.ok(existsSync(await other.apps.release(APP, DEPLOYS[0])));
  await deploy(other, APP, DEPLOYS[0]);
  assert.equal(other.apps.get(APP)!.second, null, 'a deploy ends the split');
  assert.equal(await ask(one, '/'), '1 open');
  const { store } = one;
  assert.deepEqual(
    [store.apps.all(), store.previews.all(), store.secrets.all(APP), store.alerts.all()],
    [[], [], [], []],
  );
  assert.equal(store.apps.isDeleted(APP), false);
  assert.deepEqual(store.records.changed(), []);
});

test('a host that ends between two steps leaves an app that can go on', async (t) => {
  const memory = await storeOf(t);
  const root = temporaryDirectory(t);
  let one = await open(memory, root);
  const other = await open(memory, temporaryDirectory(t));
  const know = () => {
    one.others.push(other);
    other.others.splice(0, 1, one);
  };
  know();
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  assert.equal(await ask(one, '/add'), '1');

  await other.apps.arrivals.prepare(APP);
  assert.equal(await ask(one, '/add'), '2', 'it was only prepared');

  memory.refuses = (key) => key === RECORD;
  await assert.rejects(one.apps.departures.handOver(APP, other.self, ++generation), /403/);
  memory.refuses = () => false;
  assert.equal(await ask(one, '/add'), '3', 'it stays when its record cannot be written');

  const forget = t.mock.method(one.store.records, 'forget', () => {
    throw new Error('the disk is full');
  });
  await assert.rejects(one.apps.departures.handOver(APP, other.self, ++generation), /disk is full/);
  forget.mock.restore();
  assert.equal(await ask(one, '/add'), '4', 'it stays when it cannot be forgotten');

  await one.close();
  one = await open(memory, root);
  know();
  await one.apps.departures.handOver(APP, other.self, ++generation);
  const take = t.mock.method(other.store.records, 'takeOne', () => {
    throw new Error('the disk is full');
  });
  await assert.rejects(other.apps.apply(wanted(other)), /cannot be taken over: the disk is full/);
  take.mock.restore();
  assert.equal(recordOf(memory).wanted.home, other.self);
  await other.apps.apply(wanted(other));
  assert.equal(await ask(one, '/add'), '5');
});

test('a host that was lost and returns writes nothing of an app that has another home', {
  timeout: 120_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  assert.equal(await ask(one, '/add'), '1');
  // The control plane believes that the first host is lost.
  await other.apps.apply(wanted(other));
  other.secrets.change(APP, { KEY: 'new' });
  await other.bucket.records.stored(APP);
  const before = memory.objects.get(RECORD)!.etag;
  one.secrets.change(APP, { KEY: 'old' });
  await assert.rejects(one.bucket.records.stored(APP), /another host is the home/);
  await assert.rejects(one.bucket.records.stored(APP), /another host is the home/);
  await one.bucket.records.storeAll();
  assert.equal(memory.objects.get(RECORD)!.etag, before);
  await one.apps.departures.handOver(APP, other.self, ++generation);
  assert.equal(memory.objects.get(RECORD)!.etag, before);
  assert.deepEqual([one.store.apps.all(), one.store.records.changed()], [[], []]);
  assert.equal(await ask(one, '/'), '1 new');
  assert.equal(await ask(one, '/add'), '2');
});

test('an app that comes back to a host which still has it is as its last home left it', {
  timeout: 120_000,
}, async (t) => {
  const memory = await storeOf(t);
  const root = temporaryDirectory(t);
  const before = await open(memory, root);
  const other = await open(memory, temporaryDirectory(t));
  await before.apps.apply(wanted(before));
  await deploy(before, APP, DEPLOYS[0]);
  await before.close();
  await other.apps.apply(wanted(other));
  await deploy(other, APP, DEPLOYS[1]);
  await other.close();
  const after = await open(memory, root);
  await after.apps.apply(wanted(after));
  assert.equal(after.apps.get(APP)!.liveDeployId, DEPLOYS[1]);
  assert.equal((await ask(after, '/')).trim(), '2');
});

test('a host that was frozen, and gets its app back, takes what the other home left', {
  timeout: 120_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  await other.apps.apply(wanted(other));
  await deploy(other, APP, DEPLOYS[1]);
  await other.apps.departures.handOver(APP, one.self, ++generation);
  await one.apps.apply(wanted(one));
  assert.equal(one.apps.get(APP)!.liveDeployId, DEPLOYS[1]);
});

test('an app that has another home leaves without a call, unless the control plane makes one at that time', {
  timeout: 120_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  assert.equal(await ask(one, '/add'), '1');
  const homes = new Homes(one.self, 'localhost');
  const movedAway = new MovedAway(homes, one.apps);
  const hear = (home: TestHost, newer: number) => {
    const route = {
      ...{
        id: APP,
        slug: 'shop',
        owner: 'owner',
        hostnames: [],
        storage: 'bucket' as const,
        home: home.self,
      },
      ...{ limits: { clientRpm: null, appRpm: null }, generation: newer },
    };
    homes.take({ hosts: [], revision: newer, whole: false, routes: [route], deleted: [] });
    return [route];
  };
  await movedAway.look(hear(one, generation));
  await movedAway.settle();
  await movedAway.look(hear(other, generation));
  await movedAway.look([]);
  assert.ok(one.apps.get(APP), 'that home is older than what this host knows');
  const arriving = wanted(other);
  await other.apps.apply(arriving);
  await movedAway.look(hear(other, arriving.generation));
  assert.ok(one.apps.get(APP), 'the control plane may hand it over just now');
  await movedAway.look([]);
  assert.equal(one.apps.get(APP), undefined);
  assert.equal(await ask(other, '/add'), '2');
});

test('an app leaves also when its start waits until this host may run apps', {
  timeout: 60_000,
}, async (t) => {
  const memory = await storeOf(t);
  const root = temporaryDirectory(t);
  const before = await open(memory, root);
  await before.apps.apply(wanted(before));
  await deploy(before, APP, DEPLOYS[0]);
  assert.equal(await ask(before, '/add'), '1');
  await before.close();
  const other = await open(memory, temporaryDirectory(t));
  await other.apps.apply(wanted(other));
  const back = await open(memory, root, new Gate());
  back.others.push(other);
  const answer = ask(back, '/add');
  await back.apps.departures.handOver(APP, other.self, ++generation);
  assert.equal(await answer, '2');
});

test('a late word moves an app nowhere', async (t) => {
  const memory = await storeOf(t);
  const root = temporaryDirectory(t);
  let one = await open(memory, root);
  const other = await open(memory, temporaryDirectory(t));
  one.others.push(other);
  other.others.push(one);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  const late = wanted(one);
  await one.apps.departures.handOver(APP, other.self, ++generation);
  await assert.rejects(one.apps.apply(late), StaleGeneration);
  await other.apps.apply(wanted(other));
  const newest = generation;
  await one.close();
  one = await open(memory, root);
  assert.equal(one.apps.highestGeneration, 0);
  await assert.rejects(one.apps.apply(late), StaleGeneration);
  assert.equal(one.apps.highestGeneration, newest);
  assert.equal(recordOf(memory).wanted.home, other.self);

  const toOne = ++generation;
  await other.apps.apply(wanted(other));
  await assert.rejects(other.apps.departures.handOver(APP, one.self, toOne), StaleGeneration);
  assert.equal(await ask(other, '/add'), '1');
});

test('an app that arrives knows when it has work to do, and work that may have been cut is due at once', {
  timeout: 120_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  const later = Date.now() + 3_600_000;
  await ask(one, `/alarm/${later}`);
  await rehome(one, other);
  const due = ({ store }: TestHost) => store.activity.all().get(APP)?.dueAt ?? null;
  await eventually(() => due(other) === later, 'the alarm is known');
  assert.equal(other.apps.get(APP)!.fleet.pid, null);
  await ask(other, `/alarm/${Date.now() + 300_000}`);
  await rehome(other, one);
  await eventually(() => (due(one) ?? Number.POSITIVE_INFINITY) <= Date.now(), 'the alarm is due');
});

test('only apps in the bucket leave, and a host takes no app of another', async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.departures.handOver(APP, other.self, ++generation);
  await one.apps.apply(wanted(one, { storage: 'local' }));
  await assert.rejects(one.apps.departures.handOver(APP, other.self, ++generation), {
    status: 409,
    code: 'app_immovable',
  });
  await assert.rejects(one.apps.departures.handOver(APP, one.self, ++generation), {
    status: 409,
    code: 'transition_conflict',
  });
  await assert.rejects(other.apps.arrivals.prepare(APP), { status: 409, code: 'app_immovable' });
  await assert.rejects(other.apps.apply(wanted(one)), { status: 409, code: 'transition_conflict' });
});

test('an app whose release the bucket does not have is not prepared elsewhere', {
  timeout: 60_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  for (const key of memory.objects.keys()) if (/\/releases\//.test(key)) memory.objects.delete(key);
  await assert.rejects(other.apps.arrivals.prepare(APP), {
    status: 409,
    code: 'app_immovable',
    message: /does not have its release/,
  });
});

test('what an app still has on the disk of its home is stored before it leaves', {
  timeout: 60_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  const restored = `${one.paths.importing(APP)}/data/one`;
  mkdirSync(dirname(restored), { recursive: true });
  writeFileSync(restored, 'restored');
  await one.apps.departures.handOver(APP, other.self, ++generation);
  assert.equal(existsSync(one.paths.importing(APP)), false);
  assert.ok([...memory.objects.keys()].some((name) => name.endsWith('data/one')));
  rmSync(one.paths.root, { recursive: true, force: true });
});

/** Leaves restored data on the disk of a host, as a host does that was lost during a restore. */
function beginRestore({ paths }: TestHost, id = APP): void {
  const restored = `${paths.importing(id)}/v1/do/restored`;
  mkdirSync(dirname(restored), { recursive: true });
  writeFileSync(restored, 'restored');
}

/** Returns the files of restored data in the trash of a host. */
function thrownAway({ paths }: TestHost): string[] {
  return liveFiles(paths.trash, '-path', '*/importing/v1/do/restored');
}

/** Returns the names of restored data in the bucket. */
function restoredIn(memory: MemoryStore): string[] {
  return [...memory.objects.keys()].filter((name) => name.endsWith('v1/do/restored'));
}

test('a host that was lost during a restore returns, and the writes at the new home stay', {
  timeout: 120_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  one.apps.addPreview({
    ...{ id: PREVIEW, parentId: APP, name: 'side', source: 'refs/heads/side', versionId: null },
    ...{ createdAt: Date.now(), expiresAt: Date.now() + 600_000 },
  });
  await deploy(one, APP, DEPLOYS[0]);
  beginRestore(one);
  beginRestore(one, PREVIEW);
  await other.apps.apply(wanted(other));
  assert.equal(await ask(other, '/add'), '1');
  await assert.rejects(one.apps.get(APP)!.cluster!.finishImport(), /another host is the home/);
  await one.apps.departures.handOver(APP, other.self, ++generation);
  for (const id of [APP, PREVIEW]) assert.equal(existsSync(one.paths.importing(id)), false);
  assert.equal(thrownAway(one).length, 2);
  assert.deepEqual(restoredIn(memory), []);
  assert.equal(await ask(one, '/add'), '2');
});

test('an app that comes back to a host which was lost during a restore keeps the writes of its other home', {
  timeout: 120_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  beginRestore(one);
  await other.apps.apply(wanted(other));
  assert.equal(await ask(other, '/add'), '1');
  await other.apps.departures.handOver(APP, one.self, ++generation);
  await one.apps.apply(wanted(one));
  assert.equal(await ask(one, '/add'), '2');
  assert.equal(thrownAway(one).length, 1);
  assert.deepEqual(restoredIn(memory), []);
});

test('a restore that a frozen host goes on with ends when the app has another home', {
  timeout: 60_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await one.bucket.records.stored(APP);
  beginRestore(one);
  const begun = Promise.withResolvers<void>();
  memory.faults.hangs = ({ method, key }) => {
    const isImport = method === 'PUT' && key.endsWith('v1/do/restored');
    if (isImport) begun.resolve();
    return isImport;
  };
  const { changes, cluster } = one.apps.get(APP)!;
  const restore = assert.rejects(
    changes.during(() => cluster!.finishImport()),
    /another host is the home/,
  );
  await begun.promise;
  await other.apps.apply(wanted(other));
  await one.apps.departures.handOver(APP, other.self, ++generation);
  await restore;
  assert.equal(thrownAway(one).length, 1);
});

test('a host that is cut off imports no restored data, and ends an import that runs', {
  timeout: 60_000,
}, async (t) => {
  const memory = await storeOf(t);
  const gate = new Gate();
  gate.open();
  const one = await open(memory, temporaryDirectory(t), gate);
  await one.apps.apply(wanted(one));
  beginRestore(one);
  const begun = Promise.withResolvers<void>();
  memory.faults.hangs = ({ method, key }) => {
    const isImport = method === 'PUT' && key.endsWith('v1/do/restored');
    if (isImport) begun.resolve();
    return isImport;
  };
  const { cluster } = one.apps.get(APP)!;
  const running = assert.rejects(cluster!.finishImport(), /does not reach the control plane/);
  await begun.promise;
  gate.shut();
  one.apps.cutOff();
  await running;
  memory.faults = {};
  await assert.rejects(cluster!.finishImport(), /does not reach the control plane/);
  assert.deepEqual(restoredIn(memory), []);
  gate.open();
  await cluster!.finishImport();
  assert.equal(restoredIn(memory).length, 1);
});

test('the folders of a deleted app, whose home was lost, are removed by another host', {
  timeout: 60_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  one.apps.addPreview({
    ...{ id: PREVIEW, parentId: APP, name: 'side', source: 'refs/heads/side', versionId: null },
    ...{ createdAt: Date.now(), expiresAt: Date.now() + 600_000 },
  });
  await one.bucket.records.storeAll();
  await one.close();
  await assert.rejects(other.apps.deletions.delete(APP, 0), StaleGeneration);
  await other.apps.deletions.delete(APP, ++generation);
  await other.bucket.records.storeAll();
  for (const id of [APP, PREVIEW]) {
    assert.notEqual(other.store.folderRemovals.dueAt(id), null);
    const record = JSON.parse(memory.objects.get(`of/cellar/records/${id}.json`)!.body.toString('utf8'));
    assert.equal(record.deletedApp, id);
  }
  await other.apps.apply(wanted(other, { undeleted: generation + 1 }));
  assert.equal(other.apps.get(APP)?.wanted.slug, 'shop');
});

test('an app that has left the bucket does not begin again, empty, at another host', {
  timeout: 60_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await one.apps.placeMoves.move(
    APP,
    'local',
    async () => {},
    async () => {},
  );
  await one.bucket.records.storeAll();
  await assert.rejects(other.apps.apply(wanted(other)), /on the disk of another host/);
  assert.equal(other.apps.get(APP), undefined);
  await one.apps.apply(wanted(one));
  assert.equal(one.apps.get(APP)!.wanted.storage, 'local');
});

test('an app that another host takes while it moves to a disk stays in the bucket, with that host as its home', {
  timeout: 60_000,
}, async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  assert.equal(await ask(one, '/add'), '1');
  const begin = t.mock.fn(async () => {});
  const copy = async () => {
    const refused = one.apps.departures.handOver(APP, other.self, ++generation);
    await assert.rejects(refused, { status: 409, code: 'transition_conflict' });
    await other.apps.apply(wanted(other));
  };
  const moving = one.apps.placeMoves.move(APP, 'local', copy, begin);
  await assert.rejects(moving, { status: 409, code: 'transition_conflict' });
  assert.equal(begin.mock.callCount(), 0);
  assert.equal(one.apps.get(APP)!.wanted.storage, 'bucket');
  assert.equal(one.store.folderRemovals.dueAt(APP), null);
  assert.equal(recordOf(memory).wanted.home, other.self);
  await one.apps.departures.handOver(APP, other.self, ++generation);
  assert.equal(one.apps.get(APP), undefined);
  assert.equal(await ask(one, '/add'), '2');
});

test('an app whose move to a disk cannot be written to the bucket stays in the bucket', async (t) => {
  const memory = await storeOf(t);
  const [one] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]);
  const begin = t.mock.fn(async () => {});
  const copy = async () => {
    memory.refuses = (key) => key === RECORD;
  };
  await assert.rejects(one.apps.placeMoves.move(APP, 'local', copy, begin), /403/);
  assert.equal(begin.mock.callCount(), 0);
  memory.refuses = () => false;
  await one.bucket.records.storeAll();
  assert.equal(recordOf(memory).wanted.storage, 'bucket');
  assert.equal(await ask(one, '/add'), '1');
});

test('a deleted app whose home was lost is undeleted by another host', async (t) => {
  const memory = await storeOf(t);
  const [one, other] = await two(t, memory);
  await one.apps.apply(wanted(one));
  await deploy(one, APP, DEPLOYS[0]!);
  one.secrets.change(APP, { KEY: 'open' });
  assert.equal(await ask(one, '/add'), '1');
  await one.apps.deletions.delete(APP, ++generation);
  one.store.folderRemovals.delete(APP);
  one.store.folderRemovals.add(APP, new Date(0).toISOString());
  await one.bucket.records.storeAll();
  await assert.rejects(other.apps.apply(wanted(other)), /host_unavailable|deleted/);
  const early = wanted(other, { undeleted: 1 });
  await assert.rejects(other.apps.apply(early), { code: 'app_not_found' }, 'the deletion is newer');
  const undeleted = generation + 1;
  await other.apps.apply(wanted(other, { undeleted }));
  assert.equal(await ask(other, '/'), '1 open');
  await other.bucket.records.storeAll();
  assert.equal(memory.objects.has(`of/cellar/deleted/${APP}.json`), false);
  // The lost host returns, and leaves the folder alone.
  await one.bucket.removals.run();
  assert.equal(one.store.folderRemovals.dueAt(APP), null);
  assert.equal(await ask(other, '/'), '1 open');
  assert.equal(await ask(other, '/add'), '2');
  // The lost host may get the app again.
  await one.apps.arrivals.prepare(APP);
  await other.apps.departures.handOver(APP, one.self, ++generation);
  await one.apps.apply(wanted(one, { undeleted }));
  assert.equal(await ask(one, '/'), '1 open');
});
