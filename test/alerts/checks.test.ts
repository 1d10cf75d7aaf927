// Alerts about metrics: each is reported once when it begins, and once when it ends.
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { Alerts } from '../../runtime/alerts/alerts.ts';
import { Checks, type ChecksOptions } from '../../runtime/alerts/checks.ts';
import { openHostStore } from '../../sqlite/host/index.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const APP = 'a'.repeat(16);
const MINUTE_MS = 60_000;
const MIB = 2 ** 20;
const url = 'http://example.com';

interface Message {
  type: string;
  data: { message: string; value?: number };
}

/** Makes the alerts of one app. Its processes may use 100 MiB. */
function world(t: TestContext, given: Partial<ChecksOptions>) {
  const path = join(temporaryDirectory(t), 'host.sqlite');
  const open = () => {
    const store = openHostStore(path);
    store.apps.want({ id: APP, slug: 'shop', generation: 1 } as never);
    const alerts = new Alerts({
      ...{ store, key: 'k', deployUrl: () => null },
      describe: (id) => ({ id, slug: 'shop', url: null }),
    });
    const quiet = { minutes: async () => [], lastRequestAt: () => null, backlogs: async () => null };
    return { store, alerts, checks: new Checks({ alerts, memoryMb: () => 100, ...quiet, ...given }) };
  };
  let now = open();
  t.after(() => now.store.close());
  return {
    get store() {
      return now.store;
    },
    get alerts() {
      return now.alerts;
    },
    /** Opens the database, the alerts and the checks again, as after a crash of the host. */
    again() {
      now.store.close();
      now = open();
    },
    /** Checks once, and returns the new messages. */
    async look(): Promise<Message[]> {
      await now.checks.look();
      const messages: Message[] = [];
      for (;;) {
        const [alert] = now.store.alerts.due(Date.now() + MINUTE_MS, Number.MAX_SAFE_INTEGER);
        if (alert === undefined) return messages;
        const row = now.store.alerts.firstDelivery(alert)!;
        now.store.alerts.dropDelivery(row.id);
        messages.push(JSON.parse(row.body));
      }
    },
  };
}

const types = (messages: Message[]) => messages.map(({ type }) => type);

/** Returns the metrics of one minute. `current` stands for the current minute, which is incomplete. */
const minute = (figures: object) => ({
  ...{ requests: 0, errors: 0, cpu_ms: 0, memory_bytes: null, duration_ms_p95: null },
  ...figures,
});
const current = minute({});

const FIGURES = [
  {
    kind: 'memory',
    threshold: { memory_percent: 50 },
    high: minute({ memory_bytes: 60 * MIB }),
    low: minute({ memory_bytes: 50 * MIB }),
    message: 'The app uses 60 % of its memory, more than 50 %, for 3 min.',
  },
  {
    kind: 'cpu',
    threshold: { cpu_percent: 150 },
    high: minute({ cpu_ms: 120_000 }),
    low: minute({ cpu_ms: 90_000 }),
    message: 'The app uses 200 % of a processor, more than 150 %, for 3 min.',
  },
  {
    kind: 'latency',
    threshold: { latency_ms: 200 },
    high: minute({ duration_ms_p95: 201 }),
    low: minute({ duration_ms_p95: 200 }),
    message: '5 % of the requests take 201 ms or longer, more than 200 ms, for 3 min.',
  },
] as const;

for (const { kind, threshold, high, low, message } of FIGURES)
  test(`an alert of the kind ${kind} begins and ends once, also over a restart`, async (t) => {
    let minutes: object[] = [];
    const it = world(t, { minutes: async () => minutes as never });
    const { id } = it.alerts.add(APP, { url, on: [kind], for_minutes: 3, ...threshold });
    const at = async (...given: object[]) => {
      minutes = [...given, current];
      return it.look();
    };
    assert.deepEqual(await at(high, high), [], 'not for long enough');
    assert.deepEqual(await at(high, low, high), []);
    const [begun, ...more] = await at(low, high, high, high);
    assert.deepEqual([begun!.type, begun!.data.message, more], [`${kind}.high`, message, []]);
    assert.deepEqual(it.alerts.find(id)!.firing, [kind]);
    it.again();
    assert.deepEqual(await at(high, high, high), [], 'it is still high');
    assert.deepEqual(await at(high, low, low), [], 'not over yet');
    assert.deepEqual(types(await at(low, low, low)), [`${kind}.normal`]);
    assert.deepEqual(it.alerts.find(id)!.firing, []);
    assert.deepEqual(await at(low, low, low), []);
  });

test('each alert has its own threshold, and one that no longer reports a kind forgets it', async (t) => {
  const minutes = Array(6).fill(minute({ cpu_ms: 30_000 }));
  const it = world(t, { minutes: async () => minutes as never });
  const low = it.alerts.add(APP, { url, on: ['cpu'], cpu_percent: 40 });
  it.alerts.add(APP, { url, on: ['cpu'], cpu_percent: 60 });
  it.alerts.add(APP, { url, on: ['crash'], cpu_percent: 1 });
  assert.deepEqual(types(await it.look()), ['cpu.high']);
  assert.deepEqual(it.alerts.change(APP, low.id, { on: ['crash'] }).firing, []);
  assert.deepEqual(await it.look(), []);
});

test('no traffic is reported once, but not of an app that had none, or right after a start', async (t) => {
  let last: number | null = null;
  // Rounded up, because rounding errors of fractions could make the passed time slightly too short.
  let clock = Math.ceil(performance.now());
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  t.mock.method(performance, 'now', () => clock);
  const it = world(t, { lastRequestAt: () => last });
  it.alerts.add(APP, { url, on: ['no_traffic'], no_traffic_minutes: 10 });
  const pass = (minutes: number) => {
    clock += minutes * MINUTE_MS;
    t.mock.timers.tick(minutes * MINUTE_MS);
  };
  pass(60);
  assert.deepEqual(await it.look(), []);
  last = Date.now() - 30 * MINUTE_MS;
  it.again();
  assert.deepEqual(await it.look(), [], 'this host could not count requests');
  pass(10);
  const [begun, ...more] = await it.look();
  assert.deepEqual([begun!.data.message, more], ['The app has had no request for 40 min.', []]);
  it.again();
  pass(20);
  assert.deepEqual(await it.look(), []);
  last = Date.now();
  assert.deepEqual(types(await it.look()), ['traffic.back']);
  assert.deepEqual(await it.look(), []);
});

test('a long queue is reported until it is half as long', async (t) => {
  let messages: number | null = null;
  const backlogs = async () =>
    messages === null
      ? null
      : [
          { queue: 'mail', messages },
          { queue: 'other', messages: 0 },
        ];
  const it = world(t, { backlogs });
  it.alerts.add(APP, { url, on: ['queue_backlog'], queue_backlog: 100 });
  const at = async (now: number | null) => {
    messages = now;
    return it.look();
  };
  assert.deepEqual(await at(100), []);
  const [begun] = await at(101);
  assert.equal(begun!.data.message, '101 messages wait in the queue mail, more than 100.');
  for (const now of [200, 99, null, 51]) assert.deepEqual(await at(now), [], String(now));
  assert.deepEqual(types(await at(50)), ['queue.normal']);
});

test('an alert of an earlier version gets the defaults of newer settings, and reports no more than before', async (t) => {
  const it = world(t, { backlogs: async () => [{ queue: 'mail', messages: 5_000 }] });
  const { id, app_id, created_at, updated_at } = it.alerts.add(APP, { url });
  it.store.alerts.save({ id, app_id, url, on: ['crash'], error_rate: 7, created_at, updated_at } as never);
  it.again();
  const { format, firing, error_rate, queue_backlog } = it.alerts.find(id)!;
  assert.deepEqual([format, firing, error_rate, queue_backlog], ['auto', [], 7, 1_000]);
  assert.deepEqual(await it.look(), []);
});

test('a failed snapshot is reported once, and the next good one', async (t) => {
  const it = world(t, {});
  it.alerts.add(APP, { url, on: ['snapshot'] });
  it.alerts.add(APP, { url, on: ['crash'] });
  it.alerts.reportSnapshot(() => null);
  assert.deepEqual(await it.look(), []);
  for (let n = 0; n < 3; n++) it.alerts.reportSnapshot(() => 'the disk is full');
  const [begun, ...more] = await it.look();
  assert.deepEqual([begun!.type, more], ['snapshot.failed', []]);
  assert.match(begun!.data.message, /: the disk is full$/);
  it.alerts.reportSnapshot((id) => (id === APP ? null : 'another app'));
  assert.deepEqual(types(await it.look()), ['snapshot.taken']);
});

test('an app that flips each minute sends no more than the limit of an hour, and its end is not lost', async (t) => {
  let messages = 0;
  const it = world(t, { backlogs: async () => [{ queue: 'mail', messages }] });
  const { id } = it.alerts.add(APP, { url, on: ['queue_backlog'], queue_backlog: 1 });
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  let sent = 0;
  for (let n = 0; n < 101; n++) {
    messages = n % 2 === 0 ? 2 : 0;
    sent += (await it.look()).length;
  }
  assert.equal(sent, 30);
  const wasFiring = it.alerts.find(id)!.firing.length > 0;
  messages = wasFiring ? 0 : 2;
  t.mock.timers.tick(61 * MINUTE_MS);
  assert.deepEqual(types(await it.look()), [wasFiring ? 'queue.normal' : 'queue.backlog']);
});

test('memory of each minute is compared with what the processes of that minute may use', async (t) => {
  const start = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
  t.mock.timers.enable({ apis: ['Date'], now: start });
  let processes = 4;
  const used: number[] = [];
  const minutes = async () =>
    used.map((mb, n) => ({
      ...minute({ memory_bytes: mb * MIB }),
      at: new Date(start + n * MINUTE_MS).toISOString(),
    })) as never;
  const it = world(t, { minutes, memoryMb: () => processes * 100 });
  it.alerts.add(APP, { url, on: ['memory'], for_minutes: 3 });
  /** Begins a minute in which the processes use `mb` MiB, and checks in its middle. @returns the types of messages */
  const pass = async (mb: number) => {
    used.push(mb);
    t.mock.timers.setTime(start + (used.length - 0.5) * MINUTE_MS);
    return types(await it.look());
  };
  for (let n = 0; n < 5; n++) assert.deepEqual(await pass(200), []);
  processes = 1;
  // In the minute of the change, the figure still includes all four processes.
  assert.deepEqual(await pass(200), []);
  for (let n = 0; n < 5; n++)
    assert.deepEqual(await pass(50), [], 'one process uses as much as each did before');
  for (let n = 0; n < 3; n++) assert.deepEqual(await pass(95), []);
  assert.deepEqual(await pass(95), ['memory.high']);
  processes = 2;
  for (let n = 0; n < 5; n++) assert.deepEqual(await pass(190), [], 'it is still high');
  for (let n = 0; n < 3; n++) assert.deepEqual(await pass(100), []);
  assert.deepEqual(await pass(100), ['memory.normal']);
});

test('a begin that could not be stored is reported by the next check', async (t) => {
  const high = minute({ memory_bytes: 60 * MIB });
  const it = world(t, { minutes: async () => [high, current] as never });
  it.alerts.add(APP, { url, on: ['memory'], for_minutes: 1, memory_percent: 50 });
  const { transaction } = it.store;
  it.store.transaction = (work) =>
    transaction(() => {
      work();
      throw new Error('database or disk is full');
    });
  assert.deepEqual(await it.look(), []);
  it.store.transaction = transaction;
  assert.deepEqual(types(await it.look()), ['memory.high']);
});
