// Runs as root too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { goOn, monotonic, standStill, wallClock } from '../../runtime/sockets/clock.ts';
import { until } from '../../runtime/threads/until.ts';

test('time stands still while something is handled, and is right before and after', async () => {
  const goesOn = async (clock: () => number): Promise<boolean> => {
    const begun = clock();
    return await until(() => clock() > begun, { everyMs: 1, timeoutMs: 1_000 });
  };
  assert.ok(await goesOn(monotonic));
  assert.ok(await goesOn(wallClock));
  standStill();
  const [since, wall] = [monotonic(), wallClock()];
  const end = performance.now() + 5;
  while (performance.now() < end);
  assert.deepEqual([monotonic(), wallClock()], [since, wall]);
  goOn();
  assert.ok(monotonic() >= end);
  assert.ok(wallClock() > wall);
  standStill();
  assert.ok(monotonic() >= end, 'not the time of before');
  goOn();
});

test('the time since 1970 is not ahead by what took long while time stood still', async () => {
  standStill();
  const begun = monotonic();
  // By now what was found of it is of over a second ago.
  while (performance.now() < begun + 1_100);
  goOn();
  standStill();
  monotonic();
  const end = performance.now() + 50;
  while (performance.now() < end);
  wallClock();
  goOn();
  assert.ok(Math.abs(wallClock() - Date.now()) <= 20);
});
