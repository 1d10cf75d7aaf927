import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { clockDifference, probe } from '../../runtime/bucket/probe.ts';
import { type Faults, MemoryStore } from '../support/bucket/memory-store.ts';
import { startS3 } from '../support/bucket/s3.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('R2 with conditional writes passes, and nothing is left in it; a wrong key is named', async () => {
  await using store = await startS3();
  const place = store.place('of/cellar/');
  const { clockMs } = await probe(place);
  assert.ok(Math.abs(clockMs) < 5_000, `${clockMs}`);
  assert.deepEqual(await store.names(), []);
  const wrong = probe({ ...place, secretKey: 'wrong' });
  await assert.rejects(wrong, /failed the check "create if missing": it answered 403/);
});

const FAILING: [string, Faults, RegExp][] = [
  ['that ignores conditions', { ignoresConditions: true }, /"create again if missing": it answered 200/],
  ['that ignores ranges', { ignoresRanges: true }, /"read a range": it answered 200/],
  ['whose lists are out of date', { listsNothing: true }, /"list after a write": the object .* is missing/],
  ['that is busy', { isBusy: true }, /"create if missing": it answered 503/],
  ['that cannot be reached', { cuts: true }, /"create if missing": .*ECONNRESET/],
];
for (const [what, faults, expected] of FAILING) {
  test(`a store ${what} is refused, with the check that failed`, async () => {
    await using store = await new MemoryStore().start();
    store.faults = faults;
    await assert.rejects(probe(store.place()), expected);
  });
}

test('a store that hangs is given up, also when memory is collected meanwhile', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { hangs: true };
  const probed = probe(store.place());
  const collecting = setInterval(collectGarbage, 100);
  await assert.rejects(probed, /"create if missing": .*timeout/).finally(() => clearInterval(collecting));
});

test('a store that is slow, but answers each request in time, passes', async () => {
  await using store = await new MemoryStore().start();
  store.faults = { delayMs: 1_300 };
  await probe(store.place());
});

test('all checks together have a deadline', async (t) => {
  await using store = await new MemoryStore().start();
  store.faults = { hangs: ({ method }) => method === 'GET' };
  const from = performance.now();
  t.mock.method(performance, 'now', () => from + store.asked.length * 15_000);
  const startedAt = Date.now();
  await assert.rejects(probe(store.place()), /"read": .*timeout/);
  assert.ok(Date.now() - startedAt < 9_000, 'the read has less than its own 10 seconds');
});

test('an answer that took long says nothing about the clock, unless it is outside of that time', () => {
  const slow = { sentAt: 10_000, answeredAt: 16_000 };
  assert.deepEqual(
    [10_000, 15_000, 13_000].map((date) => clockDifference(date, slow)),
    [0, 0, 0],
  );
  assert.equal(clockDifference(7_000, slow), 2_500);
  assert.equal(clockDifference(18_000, slow), -2_500);
  assert.equal(clockDifference(Number.NaN, slow), 0);
});
