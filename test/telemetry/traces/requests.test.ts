// The list of requests, with its filters, sample and limits, and the calls that a traced request made.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readLine } from '../../../runtime/telemetry/logs/log-lines.ts';
import type { Store } from '../../../runtime/telemetry/store/store.ts';
import { Calls } from '../../../runtime/telemetry/traces/calls.ts';
import { Requests } from '../../../runtime/telemetry/traces/requests.ts';
import { rowOf, Spans } from '../../../runtime/telemetry/traces/spans.ts';
import { REQUEST_MIGRATIONS, requestQueries } from '../../../sqlite/telemetry/requests.ts';
import { APP, taken, temporaryStore } from '../../support/telemetry/parts.ts';

type Asked = Omit<Parameters<Requests['answers']['requests']>[0], 'appId' | 'hours' | 'limit'>;

async function list(requests: Requests, asked: Asked = {}, limit = 200) {
  return requests.answers.requests({ appId: APP, hours: 24, limit, ...asked });
}
const pathsOf = async (requests: Requests, asked: Asked) =>
  (await list(requests, asked)).items.map(({ path }) => path);

test('requests are listed newest first, and by each filter', async () => {
  using files = temporaryStore();
  const requests = new Requests(files.store);
  requests.take(
    taken([
      { path: '/fast' },
      { path: '/Missing/page', status: 404 },
      { path: '/slow', durationMs: 1_500, cellStart: 'cold', method: 'PUT' },
      { path: '/boom', status: 502, cellStart: null },
    ]),
  );
  assert.deepEqual(await pathsOf(requests, {}), ['/boom', '/slow', '/Missing/page', '/fast']);
  assert.deepEqual(await pathsOf(requests, { status: '5xx' }), ['/boom']);
  assert.deepEqual(await pathsOf(requests, { status: '404' }), ['/Missing/page']);
  assert.deepEqual(await pathsOf(requests, { method: 'PUT' }), ['/slow']);
  assert.deepEqual(await pathsOf(requests, { path: 'missing/' }), ['/Missing/page']);
  assert.deepEqual(await pathsOf(requests, { min_ms: 1_000 }), ['/slow']);
  assert.deepEqual(await pathsOf(requests, { cell_start: 'cold' }), ['/slow']);
  assert.deepEqual(await pathsOf(requests, { path: '%' }), []);
  const first = await list(requests, {}, 3);
  assert.deepEqual(
    (await list(requests, { before: first.next! }, 3)).items.map(({ path }) => path),
    ['/fast'],
  );
});

/** Writes requests straight into the database, because `Requests` keeps only about 100 of an app in a second. */
function fill(files: { store: Store }, counts: Record<string, number>, path: string): void {
  const database = files.store.open('requests', REQUEST_MIGRATIONS);
  const { add } = requestQueries(database);
  database.transaction(() => {
    for (const [site, count] of Object.entries(counts)) {
      const row = rowOf(taken([{ site, path }]).requests[0]!);
      for (let n = 0; n < count; n++) add({ ...row, skipped: 0 });
    }
  })();
  database.close();
}

test('a search of many requests lets other work run meanwhile, and finds all', async () => {
  using files = temporaryStore();
  fill(files, { [APP]: 1 }, '/wanted');
  fill(files, { [APP]: 19_999 }, `/${'x'.repeat(1_000)}`);
  const requests = new Requests(files.store);
  let turns = 0;
  let isOver = false;
  const turn = () => {
    turns++;
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  /** Reads all pages of a search, because a busy machine may end a page early. */
  const searched = async (path: string) => {
    const found: string[] = [];
    let before: number | undefined;
    do {
      const { items, next } = await list(requests, { path, before }, 3_000);
      found.push(...items.map((item) => item.path));
      before = next ?? undefined;
    } while (before !== undefined);
    return found;
  };
  assert.deepEqual(await searched('wanted'), ['/wanted']);
  isOver = true;
  assert.ok(turns >= 5, `${turns}`);
  assert.equal((await searched('xx')).length, 19_999);
});

test('when there are too many requests, the busiest app loses its oldest, and a quiet one keeps its own', async () => {
  using files = temporaryStore();
  fill(files, { quiet: 10, [APP]: 5_000, other: 10 }, '/a');
  const requests = new Requests(files.store, { allBytes: 400_000 });
  requests.take(taken([{ path: '/newest' }]));
  while (requests.prune(Date.now()));
  const all = async (appId: string) =>
    (await requests.answers.requests({ appId, hours: 24, limit: 10_000 })).items;
  for (const quiet of ['quiet', 'other']) assert.equal((await all(quiet)).length, 10);
  const busy = await all(APP);
  assert.equal(busy[0]!.path, '/newest');
  assert.ok(busy.length > 100 && busy.length < 4_000, `${busy.length}`);
  assert.equal(requests.dropped.stored_requests, 5_001 - busy.length);
});

test('above 100 a second the list is a sample that says how many are left out, and old ones are removed', async () => {
  using files = temporaryStore();
  const requests = new Requests(files.store);
  requests.take(taken(Array.from({ length: 350 }, (_, i) => ({ path: `/${i}` }))));
  // The token bucket refills while the requests are taken, so the sample may exceed 100.
  const sampled = (await list(requests)).items.length;
  assert.ok(sampled >= 100 && sampled < 200, `${sampled}`);
  requests.take(taken([{ path: '/other', site: 'another0another0' }]));
  // The token bucket refills with time. Sends requests until one more is stored.
  for (const until = performance.now() + 5_000; (await list(requests)).items.length === sampled; ) {
    assert.ok(performance.now() < until);
    requests.take(taken([{ path: '/last' }]));
  }
  const { items } = await list(requests);
  assert.ok(items.length + items.reduce((sum, { skipped }) => sum + skipped, 0) > 350);
  while (requests.prune(Date.now() + 25 * 3_600_000));
  assert.deepEqual((await list(requests)).items, []);
  requests.take(taken([{ path: '/again', site: 'a' }]));
  requests.flush();
  assert.deepEqual(requests.apps(), ['a']);
  while (requests.forget('a'));
  assert.deepEqual(requests.apps(), []);
});

const TRACE = '0af7651916cd43dd8448eb211c80319c';

test('a trace has its requests, and the calls of all its events in order', () => {
  using files = temporaryStore();
  const requests = new Requests(files.store);
  const calls = new Calls(files.store, requests, new Spans(files.store, { retentionDays: 30 }));
  requests.take(taken([{ path: '/buy', traceId: TRACE }]));
  const now = Date.now();
  const of = (handler: string, calls: unknown[]) =>
    reportOf({ trace_id: TRACE, calls: [handler, ...calls] }, now);
  const later = of('Room.add', [['kv', 'KV.get', null, now - 5, 2, 0]]);
  const first = of('fetch', [
    ['d1', 'DB.batch', 'SELECT 1', now - 10, 8, 1],
    ['d1', 'all', 7, now - 10, 8, 0],
  ]);
  for (const report of [later, first]) calls.report(APP, now, TRACE, report!);
  const found = calls.answers.trace({ appId: APP, traceId: TRACE });
  assert.deepEqual(
    found.spans.map(({ path }) => path),
    ['/buy'],
  );
  assert.deepEqual(
    found.calls.map(({ handler, name, detail, duration_ms, failed }) => [
      handler,
      name,
      detail,
      duration_ms,
      failed,
    ]),
    [
      ['fetch', 'DB.batch', 'SELECT 1', 8, true],
      ['fetch', 'all', null, 8, false],
      ['Room.add', 'KV.get', null, 2, false],
    ],
  );
  const elsewhere = calls.answers.trace({ appId: 'other', traceId: TRACE });
  assert.deepEqual(elsewhere, { spans: [], calls: [] });
  while (calls.forget(APP));
  assert.deepEqual(calls.answers.trace({ appId: APP, traceId: TRACE }).calls, []);
});

test('an app with long events loses its own old ones, and leaves room for others', () => {
  using files = temporaryStore();
  const requests = new Requests(files.store);
  const calls = new Calls(files.store, requests, new Spans(files.store, { retentionDays: 30 }));
  const now = Date.now();
  const traceOf = (n: number) => n.toString(16).padStart(32, '0');
  const hasCalls = (appId: string, n: number) =>
    calls.answers.trace({ appId, traceId: traceOf(n) }).calls.length > 0;
  const call = { kind: 'fetch', name: 'fetch', startedAt: now, durationMs: 1, failed: false } as const;
  calls.report('quiet', now, traceOf(1), { handler: 'fetch', calls: [{ ...call, detail: null }] });
  const long = { handler: 'fetch', calls: Array(50).fill({ ...call, detail: 'x'.repeat(500) }) };
  for (let n = 1; n <= 1_000; n++) {
    calls.report(APP, now, traceOf(n), long);
    if (n % 100 === 0) calls.flush();
  }
  assert.ok(hasCalls('quiet', 1));
  assert.ok(hasCalls(APP, 1_000));
  assert.ok(!hasCalls(APP, 100));
  assert.equal(calls.dropped.calls, 0);
});

test('reports that an app makes up are bounded, and wrong ones are left out', () => {
  const now = Date.now();
  const good = ['kv', 'KV.get', 'x'.repeat(10_000), now, 1, 0];
  const bad = [
    'kv',
    null,
    [],
    ['nothing', 'a', null, now, 1, 0],
    ['kv', 7, null, now, 1, 0],
    ['kv', 'a', null, now + 60_000, 1, 0],
    ['kv', 'a', null, now, -1, 0],
    ['kv', 'a', null, now, 1e99, 0],
    ['kv', 'a', null, '1', 1, 0],
  ];
  const report = reportOf({ trace_id: TRACE, calls: ['fetch\u001b[31m', good, ...bad] }, now);
  assert.equal(report!.calls.length, 1);
  assert.equal(report!.calls[0]!.detail!.length, 500);
  assert.ok(!report!.handler.includes('\u001b'));
  assert.equal(
    reportOf({ calls: ['fetch', ...Array.from({ length: 500 }, () => good)] }, now)!.calls.length,
    50,
  );
  for (const calls of [1, 'a', null, {}, [], [1], ['fetch'], ['fetch', ...bad]])
    assert.equal(reportOf({ calls }, now), null);
});

/** Returns the calls that a line of an app's entry module reports. */
function reportOf(head: object, now: number) {
  const message = `\u001ecellar ${JSON.stringify(head)}\u001e`;
  return readLine(JSON.stringify({ timestamp: now, level: 'info', message }), 'stdout', now).calls;
}
