import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { LoopDelay } from '../../runtime/resources/loop-delay.ts';

test('a blocked thread shows in the delays of the last minutes, and no longer', async (t) => {
  const delays = new LoopDelay();
  t.after(() => delays.stop());
  await sleep(100);
  for (const end = performance.now() + 300; performance.now() < end; );
  await sleep(100);
  const { p50_ms, max_ms, over_s } = delays.recent;
  assert.ok(p50_ms < 100, `${p50_ms}`);
  assert.ok(max_ms >= 250 && max_ms < 10_000, `${max_ms}`);
  assert.ok(over_s <= 60);
});

test('old delays are forgotten', async (t) => {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const delays = new LoopDelay();
  t.after(() => delays.stop());
  await sleep(50);
  for (const end = performance.now() + 1_500; performance.now() < end; );
  await sleep(50);
  t.mock.timers.tick(60_000);
  assert.ok(delays.recent.max_ms > 1_400, 'it is told for a minute and more');
  t.mock.timers.tick(60_000);
  await sleep(50);
  assert.ok(delays.recent.max_ms < 1_400, `${delays.recent.max_ms}`);
});
