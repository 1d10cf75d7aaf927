// What alerts report, how often, and how their delivery ends.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { DeployFact, ObservedApp } from '../../handlers/contract/host/host-calls.ts';
import type { HostState } from '../../handlers/contract/host/hosts.ts';
import { ALERTS_LIMIT } from '../../handlers/contract/telemetry/alerts.ts';
import { type AlertEvent, Alerts } from '../../runtime/alerts/alerts.ts';
import { BucketOutage } from '../../runtime/alerts/bucket-outage.ts';
import { Checks } from '../../runtime/alerts/checks.ts';
import { Deliveries } from '../../runtime/alerts/deliveries.ts';
import { HostOutages } from '../../runtime/alerts/host-outages.ts';
import { PublicAddresses } from '../../runtime/isolation/private-networks.ts';
import { Mailer } from '../../runtime/mail/mail.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { Receiver, signatureOf } from '../support/alerts/receiver.ts';
import { cpuTime } from '../support/cpu-time.ts';
import { eventually } from '../support/processes.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const APP = 'a'.repeat(16);
const HOUR_MS = 3_600_000;

/** Opens the alerts of one app, in a database that can be reopened. */
function world(t: TestContext, ownerOf: (appId: string) => string = (appId) => appId) {
  const directory = temporaryDirectory(t);
  const open = () => {
    const store = openHostStore(join(directory, 'host.sqlite'));
    const describe = (id: string) =>
      store.apps.generation(id) === 0 ? null : { id, slug: 'shop', url: 'http://shop.test' };
    const alerts = new Alerts({ store, key: 'a key of this machine', describe, deployUrl: () => null });
    const reach = { addresses: new PublicAddresses(['127.0.0.1']), isLocalApp: () => false };
    const mailer = new Mailer(null, '');
    const deliveries = new Deliveries({ alerts, store, reach, mailer, ownerOf });
    return { store, alerts, deliveries };
  };
  let now = open();
  now.store.apps.want({ id: APP, slug: 'shop', generation: 1 } as never);
  return {
    get store() {
      return now.store;
    },
    get alerts() {
      return now.alerts;
    },
    get deliveries() {
      return now.deliveries;
    },
    /** Opens the database, the alerts and the deliveries again, as after a crash of the host. */
    again() {
      now.store.close();
      now = open();
    },
    async [Symbol.asyncDispose]() {
      await now.deliveries.stop();
      now.store.close();
    },
  };
}

/** Reports that the app's process has ended by itself. */
const crash = (alerts: Alerts) => alerts.reportCrash(APP, { deployId: 'live', reason: 'it ran into a wall' });
const state = (process_state: ObservedApp['process_state'], last_error: string | null) => ({
  type: 'app' as const,
  app: {
    ...{ id: APP, generation: 1, process_state, live_deploy_id: null, deployed_at: null, last_error },
    ...{ asleep_since: null, woke_at: null },
  },
});
const failed = (id: string) => ({
  type: 'deploy' as const,
  deploy: {
    id,
    app_id: APP,
    status: 'failed',
    error: 'no',
    sha: 's',
    ref: 'r',
    trigger: 'push',
  } as DeployFact,
});
const newError = (fingerprint: string): AlertEvent => ({
  kind: 'error',
  type: 'error.new',
  topic: `error ${fingerprint}`,
  message: 'TypeError',
});

interface Message {
  type: string;
  data: { repeats: number; message: string; hostname?: string };
}

/** Removes all messages from the queue, and returns them. */
function waiting({ store }: { store: ReturnType<typeof openHostStore> }): Message[] {
  const messages: Message[] = [];
  for (;;) {
    const [alert] = store.alerts.due(Date.now() + HOUR_MS, Number.MAX_SAFE_INTEGER);
    if (alert === undefined) return messages;
    const row = store.alerts.firstDelivery(alert)!;
    store.alerts.dropDelivery(row.id);
    messages.push(JSON.parse(row.body));
  }
}

/** Sends due deliveries, and waits until the result of this alert's delivery is stored. */
async function delivered({ alerts, deliveries }: ReturnType<typeof world>, id: string): Promise<void> {
  const before = alerts.find(id)!.last_delivery;
  deliveries.tick();
  await eventually(async () => alerts.find(id)!.last_delivery !== before, 'the message is delivered, or not');
}

test('an alert still works after the clock was a day ahead, and repeats nothing when it goes back a little', async (t) => {
  await using it = world(t);
  const start = Date.now();
  t.mock.timers.enable({ apis: ['Date'], now: start });
  it.alerts.add(APP, { url: 'http://example.com' });
  t.mock.timers.setTime(start + 24 * HOUR_MS);
  for (let n = 0; n < 40; n++) it.alerts.report(APP, newError(`early ${n}`));
  assert.equal(waiting(it).length, 20);
  t.mock.timers.setTime(start);
  it.alerts.report(APP, newError('early 1'));
  it.alerts.report(APP, newError('new'));
  assert.equal(waiting(it).length, 2);
  t.mock.timers.setTime(start - 10_000);
  it.alerts.report(APP, newError('new'));
  assert.equal(waiting(it).length, 0);
});

test('a crash is reported once, and an hour later again with its count since then', async (t) => {
  await using it = world(t);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  it.alerts.add(APP, { url: 'http://example.com' });
  for (let times = 0; times < 3; times++) {
    crash(it.alerts);
    // The state changes too, but that does not count as another crash.
    it.store.outbox.add(state('starting', 'it ran into a wall'));
    it.store.outbox.add(state('crashed', 'it ran into a wall'));
  }
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    ['app.crashed'],
  );
  t.mock.timers.tick(HOUR_MS);
  crash(it.alerts);
  assert.deepEqual(
    waiting(it).map(({ data }) => data.repeats),
    [2],
  );
});

test('an event over the limit of an hour is counted in the next message about it', async (t) => {
  await using it = world(t);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  it.alerts.add(APP, { url: 'http://example.com' });
  crash(it.alerts);
  t.mock.timers.tick(HOUR_MS);
  for (let n = 0; n < 30; n++) it.store.outbox.add(failed(String(n)));
  assert.equal(waiting(it).length, 31);
  crash(it.alerts);
  assert.deepEqual(waiting(it), []);
  t.mock.timers.tick(HOUR_MS);
  crash(it.alerts);
  assert.deepEqual(
    waiting(it).map(({ data }) => data.repeats),
    [1],
  );
});

test('a healthy or stopped app reports nothing', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com' });
  it.store.outbox.add(state('running', null));
  it.store.outbox.add(state('starting', null));
  it.store.outbox.add(state('idle', 'its memory was needed'));
  it.store.outbox.add(state('stopped', null));
  assert.deepEqual(waiting(it), []);
});

test('an app that is stopped for its disk use is reported once', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com', on: ['crash'] });
  it.store.held.set(APP, { cause: 'limit', why: 'its data takes too much' });
  it.store.outbox.add(state('crashed', 'its data takes too much'));
  it.store.outbox.add(state('crashed', 'its data takes too much'));
  assert.deepEqual(
    waiting(it).map(({ type, data }) => [type, data.message]),
    [['app.crashed', 'its data takes too much']],
  );
});

test('each failed deploy is reported once', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com', on: ['deploy'] });
  for (const id of ['one', 'two', 'one']) it.store.outbox.add(failed(id));
  crash(it.alerts);
  assert.equal(waiting(it).length, 2);
});

test('a fact that is withdrawn is not reported', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com' });
  const broken = () =>
    it.store.transaction(() => {
      it.store.outbox.add(failed('one'));
      throw new Error('taken back');
    });
  assert.throws(broken, /taken back/);
  assert.deepEqual(waiting(it), []);
});

test('a thousand new errors are only twenty messages, and leave room for other events', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com' });
  for (let i = 0; i < 1_000; i++) it.alerts.report(APP, newError(String(i)));
  assert.equal(waiting(it).length, 20);
  for (let i = 0; i < 1_000; i++) it.store.outbox.add(failed(String(i)));
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    Array(10).fill('deploy.failed'),
  );
});

test('many errors at once with many alerts block the thread for moments only', async (t) => {
  await using it = world(t);
  for (let n = 0; n < ALERTS_LIMIT; n++) it.alerts.add(APP, { url: 'http://example.com' });
  const group = { appId: APP, kind: 'Error', message: 'x'.repeat(500), place: null, release: null };
  const groups = Array.from({ length: 200 }, (_, n) => ({
    ...{ ...group, fingerprint: String(n), count: 1, regressed: false },
  }));
  let longest = 0;
  let spent = cpuTime();
  const look = () => {
    longest = Math.max(longest, spent());
    spent = cpuTime();
  };
  const timer = setInterval(look);
  t.after(() => clearInterval(timer));
  await it.alerts.reportErrors(groups);
  look();
  assert.ok(longest < 400, `${longest} ms`);
  assert.equal(waiting(it).length, 20 * ALERTS_LIMIT);
});

test('finding due messages is fast, however many wait', async (t) => {
  await using it = world(t);
  const { id } = it.alerts.add(APP, { url: 'http://example.com' });
  const text = 'x'.repeat(1_500);
  it.store.transaction(() => {
    for (let n = 0; n < 20_000; n++) it.store.alerts.addDelivery(`delivery ${n}`, id, text, n);
  });
  const spent = cpuTime();
  assert.deepEqual(it.store.alerts.due(Date.now(), Number.MAX_SAFE_INTEGER), [id]);
  assert.equal(it.store.alerts.firstDelivery(id)!.id, 'delivery 0');
  assert.ok(spent() < 200, `${spent()} ms`);
});

test('receivers with many messages do not delay the others', async (t) => {
  await using it = world(t);
  await using busy = await Receiver.start();
  await using quiet = await Receiver.start();
  const apps = ['b', 'c', 'd'].map((letter) => letter.repeat(16));
  for (const id of apps) {
    it.store.apps.want({ id, slug: id, generation: 1 } as never);
    for (let n = 0; n < ALERTS_LIMIT; n++) it.alerts.add(id, { url: busy.url });
    for (const topic of ['one', 'two', 'three']) it.alerts.report(id, newError(topic));
  }
  it.alerts.add(APP, { url: quiet.url });
  it.alerts.report(APP, newError('one'));
  for (let ticks = 0; quiet.received.length === 0; ticks++) {
    const before = busy.received.length;
    it.deliveries.tick();
    await eventually(() => busy.received.length > before || quiet.received.length > 0, 'the next are sent');
    await eventually(() => it.deliveries.underway === 0, 'they are delivered');
    assert.ok(ticks < 3, 'each alert has one turn before another has two');
  }
});

test('an account with many slow receivers does not delay the messages of others', async (t) => {
  await using it = world(t, (appId) => (appId === APP ? 'ada' : 'mallory'));
  await using quiet = await Receiver.start();
  await using slow = await Receiver.start();
  slow.hangs = true;
  for (const id of ['b', 'c', 'd'].map((letter) => letter.repeat(16))) {
    it.store.apps.want({ id, slug: id, generation: 1 } as never);
    for (let n = 0; n < ALERTS_LIMIT; n++) it.alerts.add(id, { url: slow.url });
    it.alerts.report(id, newError('one'));
  }
  it.deliveries.tick();
  assert.equal(it.deliveries.underway, 16);
  it.alerts.add(APP, { url: quiet.url });
  it.alerts.report(APP, newError('one'));
  it.deliveries.tick();
  assert.equal(it.deliveries.underway, 17);
  await quiet.first(() => true);
});

test('a shortage of disk space is reported when it begins', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com' });
  for (const shortage of [null, 'full', 'full', null]) it.alerts.lookAtDisk(shortage);
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    ['disk.short'],
  );
});

test('a bucket that is away for 10 s is reported once, and once when it is back', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com' });
  const outage = new BucketOutage(it.alerts);
  const during = (from: number, to: number) => {
    for (let second = from; second <= to; second++) outage.look('it answered 403', second * 1_000);
    const messages = waiting(it);
    outage.look(null, (to + 1) * 1_000);
    return [...messages, ...waiting(it)];
  };
  assert.deepEqual(during(0, 9), []);
  const [away, back, ...more] = during(20, 60);
  assert.deepEqual(more, []);
  assert.deepEqual([away!.type, back!.type], ['bucket.away', 'bucket.back']);
  assert.match(away!.data.message, /it answered 403$/);
  // Less than an hour after the outage that was reported.
  assert.deepEqual(during(100, 200), []);
});

test('outages of the bucket are reported again after an hour, each with its end', async (t) => {
  await using it = world(t);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  it.alerts.add(APP, { url: 'http://example.com' });
  it.alerts.add(APP, { url: 'http://example.com', on: ['crash'] });
  const outage = new BucketOutage(it.alerts);
  const types = () => waiting(it).map(({ type }) => type);
  for (let hour = 0; hour < 3; hour++) {
    for (const second of [0, 10]) outage.look('away', hour * HOUR_MS + second * 1_000);
    assert.deepEqual(types(), ['bucket.away']);
    outage.look(null, hour * HOUR_MS + 50 * 60_000);
    assert.deepEqual(types(), ['bucket.back']);
    t.mock.timers.tick(HOUR_MS);
  }
});

test('the end of an outage of the bucket is reported after a restart, and the outage only once', async (t) => {
  await using it = world(t);
  const { id } = it.alerts.add(APP, { url: 'http://example.com', on: ['bucket'] });
  const types = () => waiting(it).map(({ type }) => type);
  const during = (outage: BucketOutage) => {
    for (const now of [0, 10_000, 11_000]) outage.look('away', now);
  };
  during(new BucketOutage(it.alerts));
  assert.deepEqual(types(), ['bucket.away']);
  assert.deepEqual(it.alerts.find(id)!.firing, ['bucket']);
  it.again();
  const outage = new BucketOutage(it.alerts);
  during(outage);
  assert.deepEqual(types(), []);
  for (const now of [12_000, 13_000]) outage.look(null, now);
  assert.deepEqual(types(), ['bucket.back']);
  assert.deepEqual(it.alerts.find(id)!.firing, []);
});

const box = (state: HostState) => [{ id: '2', name: 'box2', address: '', version: '', state }];

test('a host that is lost is reported once, also to an app that comes later, and when it is back', async (t) => {
  await using it = world(t);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  it.alerts.add(APP, { url: 'http://example.com', on: ['host'] });
  const outages = new HostOutages(it.alerts);
  for (const now of [0, 1_000]) outages.look(box('active'), now);
  assert.deepEqual(waiting(it), []);
  for (const now of [2_000, 3_000]) outages.look(box('silent'), now);
  const lost = waiting(it);
  assert.deepEqual(
    lost.map(({ type }) => type),
    ['host.silent'],
  );
  assert.match(lost[0]!.data.message, /^The host box2 does not report/);
  // The silence is reported once, however long it lasts.
  t.mock.timers.tick(2 * HOUR_MS);
  const other = 'b'.repeat(16);
  it.store.apps.want({ id: other, slug: 'cafe', generation: 1 } as never);
  it.alerts.add(other, { url: 'http://example.com' });
  for (const now of [4_000, 5_000]) outages.look(box('silent'), now);
  assert.equal(waiting(it).length, 1);
  for (const now of [6_000, 7_000]) outages.look(box('active'), now);
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    ['host.back', 'host.back'],
  );
});

test('a host that was drained, or fails again within an hour, is not reported, nor that it is back', async (t) => {
  await using it = world(t);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  it.alerts.add(APP, { url: 'http://example.com' });
  const outages = new HostOutages(it.alerts);
  const types = () => waiting(it).map(({ type }) => type);
  for (const [second, state] of [
    [0, 'draining'],
    [2, 'active'],
    [40, 'silent'],
    [80, 'active'],
  ] as const)
    outages.look(box(state), second * 1_000);
  assert.deepEqual(types(), []);
  const outage = (from: number) => {
    outages.look(box('silent'), from);
    const silent = types();
    outages.look(box('active'), from + 1_000);
    return [...silent, ...types()];
  };
  assert.deepEqual(outage(200_000), ['host.silent', 'host.back']);
  assert.deepEqual(outage(300_000), []);
  t.mock.timers.tick(HOUR_MS);
  assert.deepEqual(outage(200_000 + HOUR_MS), ['host.silent', 'host.back']);
  outages.look([], 300_000 + HOUR_MS);
  assert.deepEqual(types(), [], 'it was removed');
});

test('a host that flaps and stays silent is reported an hour after its last report', async (t) => {
  await using it = world(t);
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  it.alerts.add(APP, { url: 'http://example.com', on: ['host'] });
  const outages = new HostOutages(it.alerts);
  const types = () => waiting(it).map(({ type }) => type);
  let now = 0;
  const pass = (ms: number, state: HostState) => {
    t.mock.timers.tick(ms);
    now += ms;
    outages.look(box(state), now);
  };
  pass(0, 'silent');
  assert.deepEqual(types(), ['host.silent']);
  pass(1_000, 'active');
  assert.deepEqual(types(), ['host.back']);
  pass(600_000, 'silent');
  pass(1_000, 'silent');
  assert.deepEqual(types(), []);
  pass(HOUR_MS, 'silent');
  pass(1_000, 'silent');
  assert.deepEqual(types(), ['host.silent']);
  pass(1_000, 'active');
  assert.deepEqual(types(), ['host.back']);
  pass(HOUR_MS, 'draining');
  pass(1_000, 'silent');
  pass(2 * HOUR_MS, 'silent');
  assert.deepEqual(types(), [], 'it was drained');
});

test('the return of a lost host is reported after a restart, unless the host was removed', async (t) => {
  await using it = world(t);
  const { id } = it.alerts.add(APP, { url: 'http://example.com', on: ['host'] });
  const types = () => waiting(it).map(({ type }) => type);
  const hosts = (first: HostState, second: HostState) => [
    ...box(first),
    ...box(second).map((host) => ({ ...host, id: '3', name: 'box3' })),
  ];
  new HostOutages(it.alerts).look(hosts('silent', 'silent'));
  assert.deepEqual(types(), ['host.silent', 'host.silent']);
  it.again();
  const outages = new HostOutages(it.alerts);
  outages.look(hosts('silent', 'silent'));
  assert.deepEqual(types(), []);
  assert.deepEqual(it.alerts.find(id)!.silent_hosts, ['2', '3']);
  outages.look(hosts('active', 'silent'));
  assert.deepEqual(
    waiting(it).map(({ data }) => data.message),
    ['The host box2 is back.'],
  );
  assert.deepEqual(it.alerts.find(id)!.firing, ['host']);
  outages.look(box('active'));
  assert.deepEqual(types(), []);
  const { firing, silent_hosts } = it.alerts.find(id)!;
  assert.deepEqual([firing, silent_hosts], [[], []]);
});

test('a hostname without a certificate is reported, each by itself, in order', async (t) => {
  await using it = world(t);
  // Both failures fall into the same millisecond.
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  it.alerts.add(APP, { url: 'http://example.com' });
  const hostnames = Array.from({ length: 8 }, (_, n) => `${n}.shop.example`);
  for (const hostname of [hostnames[0]!, ...hostnames])
    it.alerts.reportCertificate(APP, hostname, 'the authority refuses');
  assert.deepEqual(
    waiting(it).map(({ type, data }) => [type, data.hostname, data.message]),
    hostnames.map((hostname) => [
      'certificate.failed',
      hostname,
      `There is no certificate for ${hostname}: the authority refuses`,
    ]),
  );
});

test('a failed message is retried under the same id, also by the next host, and is signed each time', async (t) => {
  await using it = world(t);
  await using receiver = await Receiver.start();
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  receiver.answers = [{ status: 503 }, { status: 200 }];
  const { id } = it.alerts.add(APP, { url: receiver.url });
  it.alerts.report(APP, newError('one'));
  it.again();
  await delivered(it, id);
  const first = receiver.received[0]!;
  it.again();
  assert.equal(it.alerts.find(id)!.last_delivery!.error, 'the webhook answered 503');
  it.deliveries.tick();
  assert.equal(receiver.received.length, 1, 'it is not sent again at once');
  t.mock.timers.tick(10_000);
  await delivered(it, id);
  const second = receiver.received[1]!;
  assert.equal(second.headers['webhook-id'], first.headers['webhook-id']);
  const secret = `whsec_${it.alerts.secret(id).toString('base64')}`;
  assert.equal(second.headers['webhook-signature'], signatureOf(second, secret));
  assert.deepEqual(second.body.data.app, { id: APP, slug: 'shop', url: 'http://shop.test' });
  assert.deepEqual(waiting(it), []);
  assert.equal(it.alerts.find(id)!.last_delivery!.error, null);
});

const MEMORY = { kind: 'memory', type: 'memory.high', message: 'high' } as const;

test('a begin message that the receiver refused is dropped when the state ends, and so is the end message', async (t) => {
  await using it = world(t);
  await using receiver = await Receiver.start();
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  receiver.answers = [{ status: 503 }, { status: 200 }];
  const alert = it.alerts.add(APP, { url: receiver.url });
  it.alerts.begin(alert, MEMORY);
  await delivered(it, alert.id);
  it.again();
  it.alerts.end(alert, 'memory', 'memory.normal', 'normal');
  assert.deepEqual(it.alerts.find(alert.id)!.firing, []);
  assert.deepEqual(waiting(it), []);
  it.alerts.begin(alert, MEMORY);
  await delivered(it, alert.id);
  it.alerts.end(alert, 'memory', 'memory.normal', 'normal');
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    ['memory.normal'],
    'the second begin has arrived',
  );
});

test('an outage whose report never arrived does not hide the next one', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com', on: ['bucket'] });
  it.alerts.reportBucket('away');
  it.alerts.reportBucket(null);
  assert.deepEqual(waiting(it), []);
  it.alerts.reportBucket('away');
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    ['bucket.away'],
  );
});

test('a begin message without a known result is dropped when the state ends, but not the end message', async (t) => {
  await using it = world(t);
  await using receiver = await Receiver.start();
  receiver.hangs = true;
  const alert = it.alerts.add(APP, { url: receiver.url });
  it.alerts.begin(alert, MEMORY);
  it.deliveries.tick();
  await eventually(() => receiver.received.length === 1, 'the begin is sent');
  it.alerts.end(alert, 'memory', 'memory.normal', 'normal');
  await it.deliveries.stop();
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    ['memory.normal'],
  );
});

/** Delivers the begin message of high memory use, fails to deliver the end message, and begins the state again. */
async function beginAgain(it: ReturnType<typeof world>, receiver: Receiver) {
  receiver.answers = [{ status: 200 }, { status: 503 }];
  const alert = it.alerts.add(APP, { url: receiver.url });
  it.alerts.begin(alert, MEMORY);
  await delivered(it, alert.id);
  it.alerts.end(alert, 'memory', 'memory.normal', 'normal');
  await delivered(it, alert.id);
  it.alerts.begin(alert, MEMORY);
  return alert;
}

test('a waiting end message is dropped when the state begins again', async (t) => {
  await using it = world(t);
  await using receiver = await Receiver.start();
  const alert = await beginAgain(it, receiver);
  it.alerts.begin(alert, { kind: 'cpu', type: 'cpu.high', message: 'high' });
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    ['memory.high', 'cpu.high'],
  );
});

test('a begin message that replaced an end message gets an end message: the receiver has the first begin', async (t) => {
  await using it = world(t);
  await using receiver = await Receiver.start();
  const alert = await beginAgain(it, receiver);
  it.alerts.end(alert, 'memory', 'memory.normal', 'normal');
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    ['memory.normal'],
  );
});

test('a message that failed while the clock was ahead is retried once it is set back', async (t) => {
  await using it = world(t);
  await using receiver = await Receiver.start();
  const start = Date.now();
  t.mock.timers.enable({ apis: ['Date'], now: start + 24 * HOUR_MS });
  receiver.answers = [{ status: 503 }, { status: 200 }];
  const { id } = it.alerts.add(APP, { url: receiver.url });
  it.alerts.report(APP, newError('one'));
  await delivered(it, id);
  it.deliveries.tick();
  assert.equal(receiver.received.length, 1, 'it is not sent again at once');
  t.mock.timers.setTime(start);
  await delivered(it, id);
  assert.equal(receiver.received.length, 2);
});

test('a message is sent once while its result cannot be stored, and its result is stored later', async (t) => {
  await using it = world(t);
  await using receiver = await Receiver.start();
  const { id } = it.alerts.add(APP, { url: receiver.url });
  it.alerts.report(APP, newError('one'));
  const full = t.mock.method(it.store, 'transaction', () => {
    throw new Error('database or disk is full');
  });
  for (let ticks = 1; ticks <= 3; ticks++) {
    it.deliveries.tick();
    await eventually(() => full.mock.callCount() === ticks, 'the result is not stored');
    await eventually(() => it.deliveries.underway === 0, 'the delivery ends');
  }
  assert.equal(receiver.received.length, 1);
  full.mock.restore();
  await delivered(it, id);
  assert.deepEqual(waiting(it), []);
  assert.equal(receiver.received.length, 1);
});

test('a message that nobody accepts is dropped after its last retry', async (t) => {
  await using it = world(t);
  await using receiver = await Receiver.start();
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  receiver.answers = [{ status: 500 }];
  const { id } = it.alerts.add(APP, { url: receiver.url });
  it.alerts.report(APP, newError('one'));
  for (let tries = 1; tries <= 6; tries++) {
    await delivered(it, id);
    t.mock.timers.tick(7 * HOUR_MS);
  }
  it.deliveries.tick();
  assert.deepEqual(waiting(it), []);
  assert.equal(receiver.received.length, 6);
});

test('an alert is deleted with its app, and the number of alerts is limited', async (t) => {
  await using it = world(t);
  for (let i = 0; i < ALERTS_LIMIT; i++) it.alerts.add(APP, { url: 'http://example.com' });
  assert.throws(() => it.alerts.add(APP, { url: 'http://example.com' }), { code: 'quota_exceeded' });
  it.alerts.report(APP, newError('one'));
  it.alerts.deleteOfApp(APP);
  assert.equal(it.alerts.any, false);
  assert.deepEqual(waiting(it), []);
  assert.throws(() => it.alerts.add('b'.repeat(16), { url: 'http://example.com' }), {
    code: 'app_not_found',
  });
});

/** Returns checks for apps without traffic and backlogs, except what `given` replaces. */
function checksOf({ alerts }: { alerts: Alerts }, given: Partial<ConstructorParameters<typeof Checks>[0]>) {
  const quiet = { minutes: async () => [], lastRequestAt: () => null, backlogs: async () => null };
  return new Checks({ alerts, memoryMb: () => 100, ...quiet, ...given });
}

test('an error rate from an alert’s threshold on is reported, but not of few or old requests', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com', on: ['error_rate'], error_rate: 10 });
  it.alerts.add(APP, { url: 'http://example.com', on: ['error_rate'], error_rate: 100 });
  let minutes: { requests: number; errors: number }[] = [];
  const checks = checksOf(it, { minutes: async () => minutes as never });
  const told = async (...given: [requests: number, errors: number][]) => {
    minutes = given.map(([requests, errors]) => ({ requests, errors }));
    await checks.look();
    return waiting(it).map(({ type }) => type);
  };
  assert.deepEqual(await told([10, 10], [9, 9]), []);
  assert.deepEqual(await told([100, 9]), []);
  assert.deepEqual(await told([500, 500], [100, 0], [0, 0], [0, 0], [0, 0], [0, 0]), []);
  assert.deepEqual(await told([100, 0], [100, 20]), ['error_rate.high']);
  assert.deepEqual(await told([100, 99]), [], 'not again within the hour');
  assert.deepEqual(await told([20, 20]), ['error_rate.high'], 'the other alert');
});

test('a high error rate does not count as one of the twenty errors of an hour', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com', on: ['error', 'error_rate'], error_rate: 10 });
  await checksOf(it, { minutes: async () => [{ requests: 100, errors: 20 }] as never }).look();
  for (let i = 0; i < 30; i++) it.alerts.report(APP, newError(String(i)));
  assert.deepEqual(
    waiting(it).map(({ type }) => type),
    ['error_rate.high', ...Array(20).fill('error.new')],
  );
});

test('figures are not queried again while telemetry has not answered yet', async (t) => {
  await using it = world(t);
  it.alerts.add(APP, { url: 'http://example.com' });
  const answers: ((minutes: []) => void)[] = [];
  const minutes = () => new Promise<[]>((resolve) => answers.push(resolve));
  const checks = checksOf(it, { minutes });
  let now = performance.now();
  t.mock.method(performance, 'now', () => now);
  const tick = () => {
    now += 61_000;
    checks.tick();
  };
  tick();
  tick();
  assert.equal(answers.length, 1);
  answers[0]!([]);
  await new Promise((resolve) => setImmediate(resolve));
  tick();
  assert.equal(answers.length, 2);
  answers[1]!([]);
});
