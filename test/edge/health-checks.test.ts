import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HealthChecks } from '../../runtime/edge/health-checks.ts';

test('a host serves on for three intervals of the slowest load balancer that asks', () => {
  const checks = new HealthChecks();
  assert.equal(checks.noticedMs(0), 0);
  checks.recordCheck('a', 0);
  assert.equal(checks.noticedMs(0), 0, 'one request is no health check');
  checks.recordCheck('b', 500);
  checks.recordCheck('a', 1_000);
  checks.recordCheck('b', 5_500);
  assert.equal(checks.noticedMs(6_000), 15_000);
});

test('a load balancer with several checks counts with their interval', () => {
  const checks = new HealthChecks();
  for (const at of [0, 10, 20, 2_000, 2_010, 2_020]) checks.recordCheck('a', at);
  assert.equal(checks.noticedMs(3_000), 3 * 1_980);
});

test('an interval of minutes counts for ten seconds, and who asks no more does not count', () => {
  const checks = new HealthChecks();
  for (const at of [0, 25_000]) checks.recordCheck('a', at);
  assert.equal(checks.noticedMs(26_000), 30_000);
  assert.equal(checks.noticedMs(60_000), 0);
});

test('the number of clients is bounded, and those that asked last are known', () => {
  const checks = new HealthChecks();
  for (let n = 0; n < 1_000; n++) for (const at of [0, 2_000]) checks.recordCheck(`client ${n}`, at);
  for (const at of [2_000, 4_000]) checks.recordCheck('a', at);
  assert.equal(checks.noticedMs(5_000), 6_000);
});
