// Runs as root too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freezeClock, monotonic, resumeClock, wallClock } from '../../runtime/sockets/clock.ts';
import { until } from '../../runtime/threads/until.ts';

test('time stands still while something is handled, and is right before and after', async () => {
  const goesOn = async (clock: () => number): Promise<boolean> => {
    const begun = clock();
    return await until(() => clock() > begun, { everyMs: 1, timeoutMs: 1_000 });
  };
  assert.ok(await goesOn(monotonic));
  assert.ok(await goesOn(wallClock));
  freezeClock();
  const [since, wall] = [monotonic(), wallClock()];
  const end = performance.now() + 5;
  while (performance.now() < end);
  assert.deepEqual([monotonic(), wallClock()], [since, wall]);
  resumeClock();
  assert.ok(monotonic() >= end);
  assert.ok(wallClock() > wall);
  freezeClock();
  assert.ok(monotonic() >= end, 'not the time of before');
  resumeClock();
});

test('the time since 1970 is not ahead by what took long while time stood still', async () => {
  freezeClock();
  const begun = monotonic();
  // By now what was found of it is of over a second ago.
  while (performance.now() < begun + 1_100);
  resumeClock();
  freezeClock();
  monotonic();
  const end = performance.now() + 50;
  while (performance.now() < end);
  wallClock();
  resumeClock();
  assert.ok(Math.abs(wallClock() - Date.now()) <= 20);
});
