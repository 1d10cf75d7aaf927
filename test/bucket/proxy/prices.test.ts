// The estimated cost of requests to a bucket.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bucketPrices, monthlyCost } from '../../../runtime/bucket/proxy/prices.ts';
import { readSetting } from '../../../runtime/config.ts';

const HOUR_MS = 3_600_000;
const PRICES = { writes: 4.5, reads: 0.36, deletes: 1 };

test('the counts of at least an hour are extrapolated to 30 days', () => {
  const counts = [
    { writes: 1_000, reads: 2_000, deletes: 0 },
    { writes: 1_000, reads: 0, deletes: 500 },
  ];
  // A month has 720 hours, here with 2,000 writes, 2,000 reads and 500 deletes each.
  assert.equal(monthlyCost(counts, PRICES, HOUR_MS), 7.36);
  assert.equal(monthlyCost(counts, PRICES, 10 * HOUR_MS), 0.74);
  assert.equal(monthlyCost([], PRICES, HOUR_MS), 0);
  assert.equal(monthlyCost(counts, PRICES, HOUR_MS - 1), null);
  assert.equal(monthlyCost(counts, null, HOUR_MS), null);
});

test('prices come from the setting, and R2 has its own', () => {
  const pricesOf = (text: string, endpoint = '') =>
    bucketPrices({
      RUNNER_BUCKET_PRICES: readSetting('RUNNER_BUCKET_PRICES', { RUNNER_BUCKET_PRICES: text }),
      RUNNER_BUCKET_ENDPOINT: endpoint,
    });
  assert.deepEqual(pricesOf('writes=5, reads=0.4,deletes=1'), { writes: 5, reads: 0.4, deletes: 1 });
  assert.deepEqual(pricesOf('reads=0,writes=0'), { writes: 0, reads: 0, deletes: 0 });
  const r2 = 'https://account.eu.r2.cloudflarestorage.com';
  assert.deepEqual(pricesOf('', r2), { writes: 4.5, reads: 0.36, deletes: 0 });
  assert.equal(pricesOf('reads=1,writes=1', r2)?.writes, 1);
  assert.equal(pricesOf('', 'https://storage.example.com'), null);
  assert.equal(pricesOf(''), null);
});
