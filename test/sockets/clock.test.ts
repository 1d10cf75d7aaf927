// Runs as root too.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { freezeClock, monotonic, resumeClock, wallClock } from '../../runtime/sockets/clock.ts';
import { until } from '../../runtime/threads/until.ts';

test('the clock is frozen while an event is handled, and correct before and after', async () => {
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

test('wall time is not ahead after a long event with a frozen clock', async () => {
  freezeClock();
  const begun = monotonic();
  // By now the last measurement is over a second old.
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
