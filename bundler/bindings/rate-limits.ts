// The rate limits of a Wrangler configuration: `ratelimits`, and the older form below `unsafe`.

import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import type { RateLimit } from '../release.ts';
import { RATE_LIMIT } from './missing-bindings.ts';

/** Periods that a rate limit may have, in seconds. */
export const RATE_LIMIT_PERIODS = [10, 60] as const;

/**
 * Returns the rate limits. wrangler has checked `ratelimits`, but not `unsafe`.
 * @param file the configuration's name in messages
 * @throws {BuildFailure} for an invalid limit
 */
export function rateLimits(file: string, { ratelimits, unsafe }: WranglerConfig): RateLimit[] {
  const older = (unsafe?.bindings ?? []).filter(({ type }) => type === RATE_LIMIT);
  return [...(ratelimits ?? []), ...older].map(({ name, namespace_id, simple }) => {
    const { limit } = simple ?? {};
    const period = RATE_LIMIT_PERIODS.find((each) => each === simple?.period);
    const where = `${file}: the rate limit ${name}`;
    if (namespace_id === undefined) throw new BuildFailure(`${where}: namespace_id is missing`);
    if (!Number.isInteger(limit) || limit! < 0)
      throw new BuildFailure(`${where}: simple.limit must be a whole number`);
    if (period === undefined)
      throw new BuildFailure(`${where}: simple.period must be ${RATE_LIMIT_PERIODS.join(' or ')}`);
    return { binding: name, namespace: String(namespace_id), limit: limit!, period };
  });
}
