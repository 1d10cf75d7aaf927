// The rate limits of a Wrangler configuration: `ratelimits`, and the older form below `unsafe`.
import { BuildFailure } from './failure.ts';
import type { RateLimit } from './release.ts';
import type { WranglerConfig } from './wrangler-config.ts';

/** Windows that a limit may have, in seconds. */
export const RATE_LIMIT_PERIODS = [10, 60] as const;
/** The type of a rate limit below `unsafe`, and in uploads. */
const RATE_LIMIT = 'ratelimit';

/**
 * The rate limits. wrangler has checked those of `ratelimits`, and nothing of `unsafe`.
 * @param file the configuration's name in messages
 * @throws {BuildFailure} for a limit that cannot be, and for another binding below `unsafe`
 */
export function rateLimits(file: string, { ratelimits, unsafe }: WranglerConfig): RateLimit[] {
  const older = unsafe?.bindings ?? [];
  const other = older.find(({ type }) => type !== RATE_LIMIT);
  if (other)
    throw new BuildFailure(
      `${file}: unsafe.bindings: ${other.name}: the type ${other.type} is not run here, only ${RATE_LIMIT}`,
    );
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
