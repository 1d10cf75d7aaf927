import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Release } from '../../bundler/release.ts';
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { Apps } from '../../runtime/apps/apps.ts';
import { OutwardServices } from '../../runtime/apps/outward-services.ts';
import { Secrets } from '../../runtime/apps/secrets.ts';
import { Services } from '../../runtime/apps/services.ts';
import { keptSecret, layout } from '../../runtime/disk/data-directory.ts';
import { Gateway } from '../../runtime/edge/gateway.ts';
import { MemoryGauge } from '../../runtime/fleets/admission/memory.ts';
import { Slots } from '../../runtime/fleets/admission/slots.ts';
import { WakeFigures } from '../../runtime/fleets/admission/wake-figures.ts';
import { lineSink } from '../../runtime/fleets/process/cell-output.ts';
import { CallDepths } from '../../runtime/hosts/call-depths.ts';
import { Buckets } from '../../runtime/storage/r2/buckets.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { askUpstream } from '../support/edge/ask.ts';
import { makeRelease, workerd } from '../support/fleets/release.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const APP = 'a'.repeat(16);
const DEPLOY = 'd'.repeat(16);
const wanted = (change: Partial<WantedApp>): WantedApp => ({
  id: APP,
  slug: 'one',
  generation: 1,
  desired_state: 'running',
  hostnames: [],
  limits: { clientRpm: null, appRpm: null },
  env: {},
  ...change,
});

/** Opens the apps of a data directory, as a starting host does. */
function open(t: TestContext, root: string, idleMs = 0) {
  const paths = layout(root);
  const store = openHostStore(paths.database);
  const users = () => ({ build: null, cell: null });
  const apps = new Apps({
    bucket: null,
    onUsage: () => {},
    onNamed: () => {},
    onDeleted: () => {},
    onRestored: () => {},
    store,
    paths,
    workerd,
    users,
    uiUrl: () => null,
    onFailure: () => {},
    baseDomain: 'localhost',
    idleMs,
    slots: new Slots(4, 10_000),
    memoryMb: 512,
    cacheMb: 0,
    memory: new MemoryGauge(0, 512),
    secrets: new Secrets(store, keptSecret(paths.secretsKey)),
    buckets: new Buckets({ paths, users, service: { maxMb: 0, floorMb: 0 } }),
    services: () => ({ hasOutbound: false, socket: '/dev/null/none', open: async () => {} }),
    egress: [],
    outward: new OutwardServices({ paths, users, ai: null, mail: null }),
    wakes: new WakeFigures(),
    onFacts: () => {},
    output: () => lineSink(() => {}),
    say: () => {},
  });
  const told = () =>
    store.outbox
      .next(1_000, 10_000_000)
      .events.flatMap((event) => (event.type === 'app' ? [event.app.process_state] : []));
  /** Whether the process has ended, and its pending work is stored. */
  const hibernated = () => store.activity.all().get(APP)?.resting === true;
  let closed: Promise<void> | null = null;
  const close = () => {
    closed ??= apps.close().then(() => {
      store.close();
    });
    return closed;
  };
  // After a failed test too: a running process would keep the test file from ending.
  t.after(close);
  return { apps, store, paths, told, hibernated, close };
}

/** Requests the app as the gateway does. */
async function ask(apps: Apps): Promise<number> {
  for (;;) {
    const admission = apps.resolve('one.localhost')!.admit();
    if (admission.kind === 'refuse') return admission.status;
    if (admission.kind === 'hold') {
      await admission.ready;
      continue;
    }
    assert.ok(admission.kind === 'forward');
    return (await askUpstream(admission.upstream, '/')).status;
  }
}

/** Ticks the apps, as the host's clock does, until `condition` holds. */
async function tickUntil(apps: Apps, condition: () => boolean): Promise<void> {
  const end = performance.now() + 60_000;
  while (!condition()) {
    assert.ok(performance.now() < end, 'not within 60 s');
    apps.tick();
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

const HELLO = `export default { fetch: () => new Response('hello') }`;
/** Each request sets an alarm 3 s ahead: before it fires, one host ends and another starts. */
const ALARM = `
import { DurableObject } from 'cloudflare:workers';
export class Clock extends DurableObject {
  async set() { await this.ctx.storage.setAlarm(Date.now() + 3000); }
  async alarm() {}
}
export default { async fetch(request, env) { await env.CLOCK.getByName('one').set(); return new Response('set'); } }`;
const ALARM_STORAGE = {
  classes: [{ className: 'Clock', storageId: 'clock', sql: true }],
  durableObjects: [{ binding: 'CLOCK', className: 'Clock' }],
};

async function deployed(t: TestContext, code = HELLO, fields: Partial<Release> = {}) {
  const root = temporaryDirectory(t);
  const host = open(t, root);
  await host.apps.apply(wanted({}));
  await makeRelease(host.paths.release(APP, DEPLOY), code, fields);
  await host.apps.makeLive(APP, DEPLOY, {
    commit: (at) => host.store.apps.setLive(APP, DEPLOY, at, {}),
    log: () => {},
  });
  return { ...host, root };
}

test('a release gets requests after its pointer is synced, or after the sync failed', async (t) => {
  const host = open(t, temporaryDirectory(t));
  await host.apps.apply(wanted({}));
  await makeRelease(host.paths.release(APP, DEPLOY), HELLO);
  const asked = Promise.withResolvers<void>();
  const disk = Promise.withResolvers<void>();
  host.store.synced = () => {
    asked.resolve();
    return disk.promise;
  };
  const commit = (at: string) => host.store.apps.setLive(APP, DEPLOY, at, {});
  const live = host.apps.makeLive(APP, DEPLOY, { commit, log: () => {} });
  await asked.promise;
  assert.equal(host.store.apps.all()[0]!.liveDeployId, DEPLOY);
  assert.equal(host.apps.observe(APP)!.live_deploy_id, DEPLOY);
  for (let turns = 0; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
  assert.notEqual(host.apps.observe(APP)!.process_state, 'running');
  disk.reject(new Error('EIO: i/o error, fdatasync'));
  await live;
  assert.equal(await ask(host.apps), 200);
});

test('an app that hibernated stays so over a restart, and answers its first request', async (t) => {
  const { apps, root, close, hibernated } = await deployed(t);
  await tickUntil(apps, hibernated);
  await close();
  const next = open(t, root);
  await next.apps.resume(false);
  assert.deepEqual([next.apps.observeAll()[0]!.process_state, next.apps.get(APP)!.fleet.pid], ['idle', null]);
  assert.equal(await ask(next.apps), 200);
  assert.ok(next.apps.get(APP)!.fleet.pid);
  await next.close();
});

test('the alarm of an app that hibernates, or sleeps, is kept over a restart and run in time', async (t) => {
  for (const asleep of [false, true]) {
    const { apps, root, close, hibernated } = await deployed(t, ALARM, ALARM_STORAGE);
    assert.equal(await ask(apps), 200);
    const setBefore = Date.now();
    if (asleep) await apps.sleep(APP);
    else await tickUntil(apps, hibernated);
    await close();

    const next = open(t, root);
    await next.apps.resume(false);
    const kept = next.store.activity.all().get(APP)!;
    assert.ok(kept.resting && kept.dueAt! <= setBefore + 10_000);
    assert.equal(next.apps.get(APP)!.fleet.pid, null);
    await tickUntil(next.apps, () => next.apps.get(APP)!.fleet.pid !== null);
    assert.ok(Date.now() >= kept.dueAt! && Date.now() < kept.dueAt! + 20_000);
    await tickUntil(next.apps, () => next.store.activity.all().get(APP)!.resting);
    assert.equal(next.store.activity.all().get(APP)!.dueAt, null, 'it ran');
    assert.equal(next.apps.observe(APP)!.asleep_since !== null, asleep);
    await next.close();
  }
});

test('a running app is started again after a restart, or at an earlier first request', async (t) => {
  const { root, close } = await deployed(t);
  await close();
  const next = open(t, root);
  assert.equal(await ask(next.apps), 200, 'not 404: it was deployed');
  const { pid } = next.apps.get(APP)!.fleet;
  await next.apps.resume(false);
  assert.equal(next.apps.get(APP)!.fleet.pid, pid);
  await next.close();
  const third = open(t, root);
  await third.apps.resume(false);
  assert.equal(third.apps.observeAll()[0]!.process_state, 'running');
  await third.close();
});

test('without hibernation a hibernated app is started at boot', async (t) => {
  const { apps, root, close, hibernated } = await deployed(t);
  await tickUntil(apps, hibernated);
  await close();
  const next = open(t, root, Number.POSITIVE_INFINITY);
  await next.apps.resume(false);
  assert.equal(next.apps.observeAll()[0]!.process_state, 'running');
  await next.close();
});

test('the same wanted state again does not wake a hibernated or sleeping app; a request starts it, and a stop ends it', async (t) => {
  const { apps, close, hibernated } = await deployed(t);
  const { fleet } = apps.get(APP)!;
  await tickUntil(apps, hibernated);
  await apps.apply(wanted({ generation: 2 }));
  assert.deepEqual([fleet.state, fleet.pid], ['idle', null]);
  await apps.sleep(APP);
  await apps.apply(wanted({ generation: 4 }));
  assert.deepEqual([fleet.asleep, fleet.pid], [true, null]);
  assert.deepEqual([await ask(apps), fleet.asleep], [200, false]);
  await apps.apply(wanted({ generation: 5, desired_state: 'stopped' }));
  assert.deepEqual([fleet.state, await ask(apps)], ['stopped', 503]);
  await close();
});

test('hibernating and waking are reported to the control plane by the clock, outside the request path', async (t) => {
  const { apps, told, close, hibernated } = await deployed(t);
  await tickUntil(apps, hibernated);
  await tickUntil(apps, () => told().at(-1) === 'idle');
  const before = told().length;
  await ask(apps);
  assert.equal(told().length, before);
  apps.tick();
  assert.deepEqual(told().slice(before), ['running']);
  await close();
});

test('a wake from sleep is reported by the clock as well, with its marks', async (t) => {
  const { apps, store, told, close } = await deployed(t);
  const { asleep_since } = await apps.sleep(APP);
  const before = told().length;
  assert.equal(await ask(apps), 200);
  assert.equal(told().length, before);
  apps.tick();
  assert.deepEqual(told().slice(before), ['running']);
  const { sleep } = store.apps.all()[0]!;
  assert.equal(sleep.asleepSince, null);
  assert.ok(sleep.wokeAt! >= asleep_since!);
  await close();
});

test('a sleeping app stays asleep over a restart, and its next request wakes it', async (t) => {
  const { apps, root, close } = await deployed(t);
  const { asleep_since } = await apps.sleep(APP);
  assert.ok(asleep_since !== null);
  assert.deepEqual(await apps.sleep(APP), apps.observe(APP), 'asleep already: as it is');
  await close();
  const next = open(t, root);
  await next.apps.resume(false);
  assert.deepEqual(
    [next.apps.observe(APP)!.asleep_since, next.apps.get(APP)!.fleet.pid],
    [asleep_since, null],
  );
  assert.equal(await ask(next.apps), 200);
  assert.equal(next.apps.observe(APP)!.asleep_since, null);
  await next.close();
});

test('a sleeping app whose release does not start stays asleep, and says why', async (t) => {
  const { apps, paths, close } = await deployed(t);
  const { asleep_since, live_deploy_id } = await apps.sleep(APP);
  const module = join(paths.release(APP, live_deploy_id!), 'app.js');
  const code = readFileSync(module, 'utf8');
  writeFileSync(module, "throw new Error('it throws');");
  assert.equal(await ask(apps), 503);
  assert.equal((await apps.start(APP)).process_state, 'crashed');
  const app = apps.observe(APP)!;
  assert.equal(app.asleep_since, asleep_since);
  assert.match(app.last_error!, /it throws/);
  const refused = apps.resolve('one.localhost')!.admit();
  assert.ok(refused.kind === 'refuse' && refused.reason === 'wake_failed' && refused.retryAfterS! >= 1);
  writeFileSync(module, code);
  assert.equal((await apps.start(APP)).asleep_since, null);
  await close();
});

test('an app cannot be put to sleep during its wake, nor started during its transition to sleep', async (t) => {
  const { apps, close } = await deployed(t);
  const sleeps = [apps.sleep(APP), apps.sleep(APP)];
  await assert.rejects(apps.start(APP), /being put to sleep/);
  const [first, second] = await Promise.all(sleeps);
  assert.deepEqual(first, second);
  const asked = [ask(apps), ask(apps)];
  await assert.rejects(apps.sleep(APP), /being woken/);
  const started = apps.start(APP);
  assert.deepEqual(await Promise.all(asked), [200, 200]);
  assert.equal((await started).asleep_since, null);
  await close();
});

test('stopping a sleeping app clears the marker, and starting it sets the wake time', async (t) => {
  const { apps, close } = await deployed(t);
  await apps.sleep(APP);
  const stopped = await apps.apply(wanted({ generation: 2, desired_state: 'stopped' }));
  assert.deepEqual([stopped.asleep_since, stopped.woke_at], [null, null]);
  await assert.rejects(apps.sleep(APP), /stopped/);
  const before = new Date().toISOString();
  const started = await apps.apply(wanted({ generation: 3 }));
  assert.ok(started.woke_at! >= before);
  assert.equal(started.process_state, 'running');
  await close();
});

test('a sweep puts unused apps to sleep, and nothing else', async (t) => {
  const { apps, close } = await deployed(t);
  const asleep = () => apps.observe(APP)!.asleep_since !== null;
  /** With this window a sweep treats every app as long unused. */
  const later = -120_000;
  await apps.sweep(60_000);
  assert.equal(asleep(), false, 'it was deployed just now');
  await apps.sweep(later);
  assert.equal(asleep(), true);
  assert.equal(await ask(apps), 200);
  await apps.sweep(60_000);
  assert.equal(asleep(), false, 'it woke just now');
  const admission = apps.resolve('one.localhost')!.admit();
  assert.ok(admission.kind === 'forward');
  const closed = admission.upstream.track({ close: () => {}, destroy: () => {} });
  await apps.sweep(later);
  assert.equal(asleep(), false, 'it has a WebSocket');
  closed();
  await apps.apply(wanted({ generation: 2, desired_state: 'stopped' }));
  await apps.sweep(later);
  assert.equal(asleep(), false, 'it is stopped');
  await close();
});

test('the last minute with a request is stored, survives the host, and is not moved by health probes', async (t) => {
  const { apps, root, close } = await deployed(t);
  const { fleet } = apps.get(APP)!;
  await fleet.healthy();
  apps.tick();
  assert.equal(fleet.lastRequestAt, null);
  const before = Date.now();
  assert.equal(await ask(apps), 200);
  await tickUntil(apps, () => fleet.lastRequestAt !== null);
  const at = fleet.lastRequestAt!;
  assert.equal(at % 60_000, 0);
  assert.ok(at > before - 60_000 && at <= Date.now());
  await close();
  const next = open(t, root);
  assert.deepEqual([next.apps.get(APP)!.fleet.lastRequestAt, next.apps.openStreams], [at, 0]);
  await next.close();
});

test('nothing of a deleted app’s activity is kept', async (t) => {
  const { apps, store, close, hibernated } = await deployed(t);
  await tickUntil(apps, hibernated);
  assert.equal(store.activity.all().size, 1);
  await apps.deletions.delete(APP, 9);
  assert.equal(store.activity.all().size, 0);
  await close();
});

test('a deletion that is asked for again ends with the first one, and an undeleted app has its files', async (t) => {
  const { apps, paths, store } = open(t, temporaryDirectory(t));
  const other = 'b'.repeat(16);
  await apps.apply(wanted({}));
  await apps.apply(wanted({ id: other, slug: 'two' }));
  const kept = join(paths.data(APP), 'kept');
  mkdirSync(dirname(kept), { recursive: true });
  writeFileSync(kept, '');
  const [begun, slow] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const sync = () => {
    begun.resolve();
    return slow.promise;
  };
  t.mock.method(store, 'synced', sync, { times: 1 });
  const deletions = [apps.deletions.delete(APP, 2)];
  await begun.promise;
  deletions.push(apps.deletions.delete(APP, 2));
  await apps.deletions.delete(other, 2);
  assert.ok(existsSync(kept), 'the first deletion is not that far');
  slow.resolve();
  await Promise.all(deletions);
  assert.ok(!existsSync(kept));
  await apps.apply(wanted({ generation: 3, undeleted: 3 }));
  assert.ok(existsSync(kept));
});

test('an app whose socket to other apps could not be opened gets it at its next start', async (t) => {
  const paths = layout(temporaryDirectory(t));
  const gateway = new Gateway({
    resolve: () => ({ kind: 'respond', respond: () => ({ status: 200, headers: {}, body: '' }) }),
    holdTimeoutMs: 1_000,
  });
  t.after(() => gateway.close(0));
  const services = new Services({
    ...{ paths, baseDomain: 'localhost', gateway: () => gateway, users: () => ({ build: null, cell: null }) },
    apps: () => assert.fail('no call was made'),
    hosts: null,
    depths: new CallDepths(),
    store: { outbound: () => null, setOutbound: () => {} },
    storeSecrets: { get: () => assert.fail('no secret was asked for') },
  });
  const access = services.access(APP);
  const calls = { services: [], queues: ['orders'], namespaces: [], secrets: [], tails: [] };
  mkdirSync(dirname(paths.run(APP)), { recursive: true });
  writeFileSync(paths.run(APP), 'in the way');
  await assert.rejects(access.open(calls), /EEXIST/);
  rmSync(paths.run(APP));
  await access.open(calls);
  assert.ok(existsSync(access.socket));
  services.forget(APP);
});

test('a process with old variables is replaced by one with those of the wanted state, once', async (t) => {
  const { apps } = await deployed(
    t,
    `export default { fetch: (_, env) => new Response(null, { status: env.STATUS ?? 200 }) }`,
  );
  assert.equal(await ask(apps), 200);
  await apps.apply(wanted({ generation: 2, vars: { STATUS: 201 } }));
  assert.equal(await apps.renewVars(APP), true);
  assert.equal(await ask(apps), 201);
  const { pid } = apps.get(APP)!.fleet;
  await apps.apply(wanted({ generation: 3, vars: { STATUS: 201 } }));
  assert.equal(await apps.renewVars(APP), true);
  assert.equal(apps.get(APP)!.fleet.pid, pid);
  // Without a call of `renewVars`: the control plane sends the wanted state later, when it reconciles.
  await apps.apply(wanted({ generation: 4, vars: { STATUS: 202 } }));
  await apps.settled(APP);
  assert.equal(await ask(apps), 202);
});
