// What the requests to a bucket cost.

/** US dollars per million requests. Lists count as writes. */
export interface BucketPrices {
  writes: number;
  reads: number;
  deletes: number;
}

const R2: BucketPrices = { writes: 4.5, reads: 0.36, deletes: 0 };
/** Minimum counting time for an estimate of a month, in ms. */
const ENOUGH_MS = 3_600_000;
const MONTH_MS = 30 * 24 * 3_600_000;

/** Returns the prices in the settings, or else R2's prices for a bucket in R2; null for another store. */
export function bucketPrices({
  RUNNER_BUCKET_PRICES,
  RUNNER_BUCKET_ENDPOINT,
}: {
  RUNNER_BUCKET_PRICES: BucketPrices | null;
  RUNNER_BUCKET_ENDPOINT: string;
}): BucketPrices | null {
  if (RUNNER_BUCKET_PRICES !== null) return RUNNER_BUCKET_PRICES;
  const host = URL.parse(RUNNER_BUCKET_ENDPOINT)?.hostname ?? '';
  return host.endsWith('.r2.cloudflarestorage.com') ? R2 : null;
}

/**
 * Returns the estimated cost of requests in 30 days, in US dollars, rounded to cents; null without an estimate.
 * @param elapsedMs the time in which the requests were counted; there is no estimate for less than `ENOUGH_MS`
 */
export function monthlyCost(
  counts: readonly Record<keyof BucketPrices, number>[],
  prices: BucketPrices | null,
  elapsedMs: number,
): number | null {
  if (prices === null || elapsedMs < ENOUGH_MS) return null;
  const cost = counts.reduce(
    (sum, { writes, reads, deletes }) =>
      sum + writes * prices.writes + reads * prices.reads + deletes * prices.deletes,
    0,
  );
  return Math.round((100 * (cost / 1e6) * MONTH_MS) / elapsedMs) / 100;
}
