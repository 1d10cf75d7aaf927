// Removing what has been kept long enough.
import { removeOld } from '../../sqlite/control/retention.ts';
import type { Bindings } from '../bindings.ts';
import { DEPLOYS_LIMIT } from '../contract/sizes.ts';

const DAY_MS = 24 * 3_600_000;
/** One run takes no longer: the next one goes on. */
const BUDGET_MS = 10_000;

/** Milliseconds that events, users, insights and the events of streams are kept. */
export function retentionMs(env: Bindings): number {
  return Number(env.RUNNER_TELEMETRY_RETENTION_DAYS) * DAY_MS;
}

/** The database and the settings; `at` is the time now, ISO 8601 with milliseconds. */
interface Now {
  db: D1Database;
  env: Bindings;
  at: string;
}

/** Removes rows that are older than the retention, and all but the newest deploys. */
export async function prune({ db, env, at }: Now): Promise<void> {
  const before = new Date(Date.parse(at) - retentionMs(env)).toISOString();
  const end = Date.now() + BUDGET_MS;
  await removeOld(db, before, DEPLOYS_LIMIT, () => Date.now() < end);
}
