// The list of apps.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type App,
  attention,
  errorRate,
  isIdle,
  matches,
  type Overview,
  sumsOf,
} from '../../../ui/models/apps.ts';

const figures = {
  requests: Array.from({ length: 24 }, () => 10),
  errors: 0,
  duration_ms_p99: 12,
  requests_per_minute: 3,
  memory_bytes: 1_000 as number | null,
  processes: 1,
  open_errors: 0,
};
const deploy = {
  id: 'd',
  message: 'Sell tea',
  author: 'Ada',
  status: 'live',
  at: '2026-11-22T00:00:00.000Z',
};

function app(changes: object): App {
  return { slug: 'shop', status: 'running', figures, last_deploy: deploy, ...changes } as App;
}

test('an app needs attention when it crashed, failed to deploy, or has open errors', () => {
  assert.equal(attention(app({})), null);
  assert.equal(attention(app({ status: 'crashed' })), 'crashed');
  assert.equal(attention(app({ last_deploy: { ...deploy, status: 'failed' } })), 'its last deploy failed');
  assert.equal(attention(app({ figures: { ...figures, open_errors: 1 } })), 'one open error');
  assert.equal(attention(app({ figures: { ...figures, open_errors: 3 } })), '3 open errors');
  assert.equal(attention(app({ figures: null, last_deploy: null })), null);
});

test('the error rate is that of all requests, and null without requests', () => {
  assert.equal(errorRate({ ...figures, errors: 24 }), 0.1);
  assert.equal(errorRate({ ...figures, requests: figures.requests.map(() => 0) }), null);
  assert.equal(errorRate(null), null);
});

test('an app without a process is idle, whatever its wanted state', () => {
  const resting = { ...figures, memory_bytes: null };
  assert.ok(isIdle(app({ figures: resting })));
  for (const other of [app({}), app({ figures: null }), app({ figures: resting, status: 'crashed' })])
    assert.ok(!isIdle(other));
});

test('the filter searches name, status and last deploy', () => {
  for (const typed of ['', 'sho', 'runn', 'tea', 'ada']) assert.ok(matches(app({}), typed), typed);
  assert.ok(!matches(app({}), 'coffee'));
});

test('sums skip unknown values', () => {
  const items = [
    app({}),
    app({ figures: { ...figures, memory_bytes: null } }),
    app({ figures: null, status: 'crashed' }),
  ];
  const { total, awake, perMinute, memory, attention } = sumsOf({
    items,
    more: false,
    memory: null,
  } as Overview);
  assert.deepEqual([total, awake, perMinute, memory, attention.length], [3, 1, 6, 1_000, 1]);
  assert.equal(sumsOf(null).total, 0);
});
