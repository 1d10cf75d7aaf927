// The figures in the overview of an app.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commands } from '../../../ui/models/start.ts';
import { rangeWithRequests, spanOf, stepsIn, summary } from '../../../ui/models/telemetry/overview.ts';
import { isolated } from '../../../ui/parts/charts/isolated.ts';

const HOUR_MS = 3_600_000;
const now = Date.parse('2026-11-22T12:00:00.000Z');

function step(minutesAgo: number, changes: object = {}) {
  const none = {
    errors: 0,
    client_errors: 0,
    rate_limited: 0,
    shed: 0,
    bytes_in: 0,
    bytes_out: 0,
    cpu_ms: 0,
  };
  const times = {
    duration_ms_p50: null,
    duration_ms_p90: null,
    duration_ms_p95: null,
    duration_ms_p99: null,
    duration_ms_mean: null,
  };
  const at = new Date(now - minutesAgo * 60_000).toISOString();
  return { at, requests: 0, wakes: 0, held_ms: 0, memory_bytes: null, ...none, ...times, ...changes };
}

test('the range is read from the query, and an invalid one is a day', () => {
  assert.deepEqual(spanOf('7d', '', '', now), { hours: 168, from: null, to: null });
  assert.deepEqual(spanOf('nonsense', 'x', 'y', now), { hours: 24, from: null, to: null });
  const [from, to] = [now - 90 * 60_000, now - 30 * 60_000];
  assert.deepEqual(spanOf('24h', String(from), String(to), now), { hours: 2, from, to });
  assert.equal(spanOf('24h', String(to), String(from), now).from, null, 'backwards');
  assert.equal(spanOf('24h', String(now - 5000 * HOUR_MS), String(now), now).hours, 720);
});

test('without a chosen range, the shortest one with requests is shown', () => {
  const steps = (...items: ReturnType<typeof step>[]) => ({ step_s: 21_600, items, next_cursor: null });
  const at = (hoursAgo: number) => step(hoursAgo * 60, { requests: 1 });
  assert.equal(rangeWithRequests(steps(at(700), step(60)), now), '30d');
  assert.equal(rangeWithRequests(steps(at(700), at(150), step(60)), now), '7d');
  assert.equal(rangeWithRequests(steps(at(700), at(29), step(60)), now), '24h');
  assert.equal(rangeWithRequests(steps(step(60)), now), null);
});

test('a value between gaps is drawn as a point', () => {
  assert.deepEqual(isolated([1, null, 2, 3, null, 0, undefined, null, 4]), [0, 5, 8]);
  assert.deepEqual(isolated([]), []);
});

test('a selected part contains the steps that it touches', () => {
  const items = [4, 3, 2, 1, 0].map((minutes) => step(minutes));
  const found = stepsIn(
    { step_s: 60, items, next_cursor: null },
    { hours: 1, from: now - 150_000, to: now - 60_000 },
  );
  assert.deepEqual(
    found.map(({ at }) => at),
    [items[1]!.at, items[2]!.at],
  );
});

test('latencies are weighted by the requests of their step', () => {
  const { requests, errors, p50, p99 } = summary([
    step(2, { requests: 3, errors: 1, duration_ms_p50: 10, duration_ms_p99: 100 }),
    step(1),
    step(0, { requests: 1, duration_ms_p50: 50, duration_ms_p99: 200 }),
  ]);
  assert.deepEqual([requests, errors, p50, p99], [4, 1, 20, 125]);
  assert.deepEqual(summary([step(0)]), { requests: 0, errors: 0, wakes: 0, p50: null, p99: null });
});

test('commands contain the key only when there is one', () => {
  const remote = {
    url: 'http://git.localhost/shop',
    url_with_key: 'http://git:<API_KEY>@git.localhost/shop',
  } as Parameters<typeof commands>[0];
  const without = commands(remote, 'shop', 'http://api.localhost', null);
  assert.match(without.git, /^git remote add cellar http:\/\/git.localhost\/shop$/m);
  const { git, wrangler } = commands(remote, 'shop', 'http://api.localhost', 'k3y');
  assert.match(git, /http:\/\/git:k3y@git.localhost\/shop$/m);
  assert.match(wrangler, /^export CLOUDFLARE_API_TOKEN=k3y$/m);
});
