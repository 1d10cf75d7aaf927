import assert from 'node:assert/strict';
import { test } from 'node:test';
import { goOn, monotonic, standStill, wallClock } from '../../runtime/machine/clock.ts';
import { until } from '../../runtime/machine/until.ts';

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
