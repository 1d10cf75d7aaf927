// Telemetry while writes fail: its memory is bounded, and drops are counted.
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { SourceStacks } from '../../runtime/telemetry/errors/source-stacks.ts';
import { Logs } from '../../runtime/telemetry/logs/logs.ts';
import { Breakdowns } from '../../runtime/telemetry/metrics/breakdowns.ts';
import { Datapoints } from '../../runtime/telemetry/metrics/datapoints.ts';
import { Tally } from '../../runtime/telemetry/metrics/tally.ts';
import { Calls } from '../../runtime/telemetry/traces/calls.ts';
import { Requests } from '../../runtime/telemetry/traces/requests.ts';
import { Spans } from '../../runtime/telemetry/traces/spans.ts';
import { RefusingStore, taken } from '../support/telemetry/parts.ts';
import { temporaryDirectory } from '../support/temporary.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';

function refusing(t: TestContext): RefusingStore {
  const store = new RefusingStore(temporaryDirectory(t));
  t.after(() => store.close());
  return store;
}

test('breakdowns of many hours that cannot be written are dropped and counted, and later ones are kept', (t) => {
  const store = refusing(t);
  const breakdowns = new Breakdowns(store, { retentionDays: 30 });
  store.refuse(true);
  const now = Date.now();
  const requests = (hour: number) =>
    Array.from({ length: 200 }, (_, n) => {
      const name = `${String.fromCharCode(97 + (n % 26))}${'z'.repeat(Math.floor(n / 26))}`;
      const endedAt = now - hour * 3_600_000;
      return { endedAt, path: `/${name}`, referrer: `http://${name}.test`, userAgent: `${name}/1` };
    });
  for (let hour = 0; hour < 800; hour++) {
    breakdowns.take(taken(requests(hour)));
    assert.throws(() => breakdowns.flush(), /readonly/);
  }
  assert.ok(breakdowns.dropped.breakdowns > 400_000, `${breakdowns.dropped.breakdowns}`);
  store.refuse(false);
  breakdowns.take(taken([{ path: '/kept' }]));
  const { items } = breakdowns.answers.paths({
    appId: taken([{}]).requests[0]!.appId,
    hours: 1,
    limit: 200,
    offset: 0,
  });
  assert.ok(items.some(({ path }) => path === '/kept'));
});

test('evicted keys count as unwritten ones until they are written', () => {
  const tally = new Tally([]);
  for (let n = 0; n < 1_000; n++) tally.add(`/${n}`, false);
  assert.ok(tally.keys > 1_000, `${tally.keys}`);
  tally.written();
  assert.ok(tally.keys < 300, `${tally.keys}`);
});

test('requests and calls of many apps that cannot be written are bounded together', async (t) => {
  const store = refusing(t);
  const requests = new Requests(store);
  const calls = new Calls(store, requests, new Spans(store, { retentionDays: 1 }));
  store.refuse(true);
  const now = Date.now();
  const call = { kind: 'd1', name: 'all', startedAt: now, durationMs: 1, failed: false } as const;
  const detail = 'x'.repeat(500);
  for (let app = 0; app < 300; app++) {
    const site = `app${app}`;
    requests.take(taken(Array.from({ length: 100 }, () => ({ site }))));
    for (let n = 0; n < 10; n++)
      calls.report(site, now, TRACE, { handler: 'fetch', calls: Array(50).fill({ ...call, detail }) });
  }
  for (const part of [requests, calls]) assert.throws(() => part.flush(), /readonly/);
  assert.ok(calls.dropped.calls > 2_500, `${calls.dropped.calls}`);
  store.refuse(false);
  for (const part of [requests, calls]) part.flush();
  assert.equal(requests.apps().length, 200);
  requests.take(taken([{ site: 'app299' }]));
  const { items } = await requests.answers.requests({ appId: 'app299', hours: 1, limit: 1 });
  const [last] = items;
  assert.equal(last!.skipped, 100);
});

test('data points that cannot be written are dropped and counted, those of the app that has most', async (t) => {
  const store = refusing(t);
  const points = new Datapoints(store, { retentionDays: 1 });
  const write = (appId: string, length: number) =>
    points.report(appId, Date.now(), { dataset: 'd', index: null, blobs: ['x'.repeat(length)], doubles: [] });
  store.refuse(true);
  write('small', 10);
  for (let n = 0; n < 1_000; n++) write('large', 60_000);
  assert.throws(() => points.flush(), /readonly/);
  assert.equal(points.dropped.datapoints, 1_000);
  store.refuse(false);
  const { items } = await points.answers.datapoints({ appId: 'small', hours: 1, limit: 10 });
  assert.equal(items.length, 1);
});

test('lines that cannot be written are dropped and reported, those of the app that has most, however short they are', async (t) => {
  const store = refusing(t);
  const stacks = new SourceStacks('/nowhere');
  const logs = new Logs(
    store,
    { fleetLog: 'error', stacks },
    { onError() {}, onRun() {}, onPoint() {}, onCalls() {}, onReport() {} },
  );
  const print = (appId: string, pipe: number, text: string) => {
    const piece = { appId, deployId: 'r1', at: Date.now(), pipe, stream: 'stdout', dropped: null } as const;
    logs.take({ said: [], output: [{ ...piece, bytes: new Uint8Array(Buffer.from(text)), isLast: false }] });
  };
  store.refuse(true);
  print('small', 0, 'quiet\n');
  let refused = 0;
  for (let app = 1; app <= 20; app++) {
    try {
      print(`app${app}`, app, 'x\n'.repeat(8_000));
      logs.flush();
    } catch {
      refused++;
    }
  }
  assert.equal(refused, 20);
  assert.ok(logs.dropped.log_lines >= 8_000, `${logs.dropped.log_lines} are dropped`);
  store.refuse(false);
  const texts = async (appId: string, search: string) =>
    (await logs.answers.logs!({ appId, limit: 10, search })).items.map(({ text }) => text);
  assert.deepEqual(await texts('small', 'quiet'), ['quiet']);
  const told = await Promise.all(Array.from({ length: 20 }, (_, n) => texts(`app${n + 1}`, 'were dropped')));
  const sum = told.flat().reduce((lines, text) => lines + Number.parseInt(text, 10), 0);
  assert.equal(sum, logs.dropped.log_lines);
});
