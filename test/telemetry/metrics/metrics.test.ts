// Metric buckets: their sums after restarts and clock changes, and over longer times.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Metrics } from '../../../runtime/telemetry/metrics/metrics.ts';
import { APP, taken, temporaryStore } from '../../support/telemetry/parts.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;
const DAYS = { retentionDays: 30 };

function read(metrics: Metrics, hours: number) {
  return metrics.answers.metrics({ appId: APP, hours });
}

function requests(metrics: Metrics, hours: number): number {
  return read(metrics, hours).items.reduce((sum, item) => sum + item.requests, 0);
}

test('a bucket adds up requests and process usage', () => {
  using files = temporaryStore();
  const metrics = new Metrics(files.store, DAYS);
  const at = Date.now();
  metrics.take(
    taken(
      [
        { endedAt: at, status: 200, durationMs: 10, bytesIn: 5, bytesOut: 7 },
        { endedAt: at, status: 404, durationMs: 20 },
        { endedAt: at, status: 429, durationMs: 30, refused: 'rate_limited' },
        { endedAt: at, status: 500, durationMs: 40 },
        { endedAt: at, status: 503, durationMs: 100, refused: 'shed', heldMs: 50 },
        { endedAt: at, status: 503, durationMs: 40, bytesOut: 0, refused: 'maintenance' },
        { endedAt: at, status: 101, durationMs: 3_600_000, upgraded: true },
      ],
      {
        usage: [
          { appId: APP, at, cpuMs: 12, memoryBytes: 1_000, wakes: 1, processes: 1 },
          { appId: APP, at, cpuMs: 3, memoryBytes: 900, wakes: 0, processes: 1 },
        ],
      },
    ),
  );
  const { step_s, items } = read(metrics, 1);
  assert.equal(step_s, 60);
  assert.equal(items.length, 60);
  const item = items.find((found) => found.requests > 0)!;
  assert.deepEqual(item, {
    at: new Date(at - (at % MINUTE_MS)).toISOString(),
    requests: 7,
    errors: 2,
    client_errors: 2,
    rate_limited: 1,
    shed: 1,
    duration_ms_p50: item.duration_ms_p50,
    duration_ms_p90: item.duration_ms_p90,
    duration_ms_p95: item.duration_ms_p95,
    duration_ms_p99: item.duration_ms_p99,
    duration_ms_mean: 40,
    bytes_in: 5,
    bytes_out: 507,
    cpu_ms: 15,
    memory_bytes: 1_000,
    wakes: 1,
    held_ms: 50,
  });
  // The WebSocket was open for an hour, which does not count as latency.
  assert.ok(Math.abs(item.duration_ms_p50! - 30) < 2 && Math.abs(item.duration_ms_p99! - 100) < 6);
});

test('an overview has the hours of a day, and the current state', (t) => {
  using files = temporaryStore();
  // The clock stands still, so that no other hour begins before the read.
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() });
  const metrics = new Metrics(files.store, DAYS);
  const at = Date.now();
  const lastMinute = at - (at % MINUTE_MS) - 1;
  metrics.take(
    taken(
      [
        { endedAt: at - 3 * HOUR_MS, durationMs: 1_000, status: 500 },
        { endedAt: at - 25 * HOUR_MS, durationMs: 9_000 },
        ...[lastMinute, lastMinute, at].map((endedAt) => ({ endedAt, durationMs: 10 })),
      ],
      {
        usage: [
          { appId: APP, at: at - HOUR_MS, cpuMs: 0, memoryBytes: 9_000, wakes: 0, processes: 1 },
          { appId: APP, at: lastMinute, cpuMs: 0, memoryBytes: 1_000, wakes: 0, processes: 1 },
        ],
      },
    ),
  );
  const found = metrics.answers['metrics/overview']({ appIds: [APP, 'none'] });
  const { requests, duration_ms_p99, ...rest } = found[APP]!;
  assert.equal(requests.length, 24);
  assert.equal(requests[20], 1);
  assert.equal(
    requests.reduce((sum, each) => sum + each, 0),
    4,
  );
  assert.ok(Math.abs(duration_ms_p99! - 1_000) < 31);
  assert.deepEqual(rest, { errors: 1, requests_per_minute: 2, memory_bytes: 1_000 });
  assert.deepEqual(found.none, {
    requests: requests.map(() => 0),
    errors: 0,
    duration_ms_p99: null,
    requests_per_minute: 0,
    memory_bytes: null,
  });
});

test('gaps are zeros, and no range has more steps than a chart can show', () => {
  using files = temporaryStore();
  const metrics = new Metrics(files.store, DAYS);
  for (const hours of [1, 6, 7, 24, 25, 72, 73, 168, 169, 720]) {
    const { step_s, items } = read(metrics, hours);
    assert.equal(items.length, Math.ceil((hours * 3600) / step_s), String(hours));
    assert.ok(items.length >= 28 && items.length <= 360, `${hours} hours have ${items.length} steps`);
    assert.ok(Date.parse(items.at(-1)!.at) <= Date.now());
    assert.ok(items.every((item) => item.requests === 0 && item.duration_ms_p99 === null));
  }
});

test('the sum is exact in every range, over restarts and clock changes', () => {
  using files = temporaryStore();
  const now = Date.now();
  const ago = [0, 0, 30, 1, 59, 2, 0].map((minutes) => ({ endedAt: now - minutes * MINUTE_MS }));
  let metrics = new Metrics(files.store, DAYS);
  for (const request of ago) {
    metrics.take(taken([request]));
    metrics.flush();
    metrics = new Metrics(files.reopen(), DAYS);
  }
  for (const hours of [2, 24, 72, 168, 720])
    assert.equal(requests(metrics, hours), ago.length, String(hours));
});

test('a step of many buckets has the percentiles of all its requests', () => {
  using files = temporaryStore();
  const metrics = new Metrics(files.store, DAYS);
  const now = Date.now();
  const bulk = Array.from({ length: 99 }, () => ({ endedAt: now - 2 * HOUR_MS, durationMs: 10 }));
  metrics.take(taken([...bulk, { endedAt: now - HOUR_MS, durationMs: 1_000 }]));
  const { items } = read(metrics, 720);
  const timed = items.filter((item) => item.requests > 0);
  // A step covers six hours, so both hours fall into one step, unless a step ends between them.
  if (timed.length === 1) {
    assert.ok(Math.abs(timed[0]!.duration_ms_p50! - 10) < 1 && Math.abs(timed[0]!.duration_ms_p99! - 10) < 1);
    assert.equal(timed[0]!.duration_ms_mean, 19.9);
  } else assert.deepEqual(timed.map((item) => item.requests).sort(), [1, 99]);
});

test('data older than the retention is deleted in small batches, minutes before hours', () => {
  using files = temporaryStore();
  const metrics = new Metrics(files.store, { retentionDays: 5 });
  const now = Date.now();
  const old = Array.from({ length: 1_200 }, (_, i) => ({ endedAt: now - 4 * DAY_MS - i * MINUTE_MS }));
  metrics.take(taken([...old, { endedAt: now }]));
  assert.equal(requests(metrics, 168), 1_201);
  assert.equal(metrics.prune(now), true);
  let pieces = 1;
  while (metrics.prune(now)) pieces++;
  assert.equal(pieces, 2);
  assert.equal(requests(metrics, 72), 1);
  assert.equal(requests(metrics, 168), 1_201);
  while (metrics.prune(now + 6 * DAY_MS));
  assert.equal(requests(metrics, 720), 0);
});

test('a forgotten app leaves nothing, in memory either', () => {
  using files = temporaryStore();
  const metrics = new Metrics(files.store, DAYS);
  const other = { site: 'fedcba9876543210' };
  metrics.take(taken([{}, other]));
  metrics.flush();
  metrics.take(taken([{}]));
  assert.deepEqual(metrics.apps().sort(), [APP, other.site]);
  while (metrics.forget(APP));
  metrics.flush();
  assert.equal(requests(metrics, 720), 0);
  assert.deepEqual(metrics.apps(), [other.site]);
});

test('the watermark is the time of the last count', () => {
  using files = temporaryStore();
  const metrics = new Metrics(files.store, DAYS);
  const version = () => metrics.answers['metrics/version']({ appId: APP });
  assert.deepEqual(version(), { schema: 1, watermark: null });
  const before = Date.now();
  metrics.take(taken([{}]));
  const { watermark } = version();
  assert.ok(Date.parse(watermark!) >= before && Date.parse(watermark!) <= Date.now());
  assert.equal(version().watermark, watermark);
});
