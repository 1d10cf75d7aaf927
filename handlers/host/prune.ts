// Deletes data older than the retention time.
import { removeOld } from '../../sqlite/control/retention.ts';
import type { Bindings } from '../bindings.ts';
import { DEPLOYS_LIMIT } from '../contract/sizes.ts';

const DAY_MS = 24 * 3_600_000;
/** Time limit of a run; the next run continues. */
const BUDGET_MS = 10_000;

/** Retention of events, users, insights and stream events, in ms. */
export function retentionMs(env: Bindings): number {
  return Number(env.RUNNER_TELEMETRY_RETENTION_DAYS) * DAY_MS;
}

/** `at` is the current time, ISO 8601 with milliseconds. */
interface Now {
  db: D1Database;
  env: Bindings;
  at: string;
}

/** Deletes rows older than the retention time, and all but the newest deploys. */
export async function prune({ db, env, at }: Now): Promise<void> {
  const before = new Date(Date.parse(at) - retentionMs(env)).toISOString();
  const end = Date.now() + BUDGET_MS;
  await removeOld(db, before, DEPLOYS_LIMIT, () => Date.now() < end);
}
