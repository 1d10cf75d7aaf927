import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Wakes } from '../../../runtime/fleets/admission/wakes.ts';

test('those who wait share one wake; after one that failed none is tried for a time that doubles', async (t) => {
  let now = 1_000;
  t.mock.method(performance, 'now', () => now);
  let asked = 0;
  const reasons: unknown[] = [];
  const wakes = new Wakes(
    () => {
      asked++;
      return Promise.reject(new Error('it does not start'));
    },
    (error) => reasons.push(error),
  );
  for (const seconds of [1, 2, 4, 8, 16, 32, 60, 60]) {
    const [one, other] = [wakes.join(), wakes.join()];
    assert.equal(one, other);
    await one;
    assert.equal(wakes.join(), null);
    assert.equal(wakes.retryAfterS, seconds);
    now += seconds * 1000;
  }
  assert.deepEqual([asked, reasons.length], [8, 8]);
});

test('a wake that failed is tried again as soon after the clock was set back', async (t) => {
  const start = Date.now();
  t.mock.timers.enable({ apis: ['Date'], now: start });
  const wakes = new Wakes(
    () => Promise.reject(new Error('it does not start')),
    () => {},
  );
  await wakes.join();
  t.mock.timers.setTime(start - 3_600_000);
  assert.ok(wakes.retryAfterS > 0 && wakes.retryAfterS <= 1, String(wakes.retryAfterS));
});

test('an app that has served since is woken at once, however its last wake ended', async () => {
  const wakes = new Wakes(
    () => Promise.reject(new Error('it does not start')),
    () => {},
  );
  await wakes.join();
  assert.equal(wakes.join(), null);
  wakes.arrived();
  assert.equal(wakes.retryAfterS, 0);
  assert.notEqual(wakes.join(), null);
});
