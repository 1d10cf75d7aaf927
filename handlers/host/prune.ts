// Deletes old data from D1.
import { removeDeleted } from '../../sqlite/control/apps/deleted.ts';
import { removeOld } from '../../sqlite/control/retention.ts';
import type { Bindings } from '../bindings.ts';
import { UNDELETABLE_MS } from '../contract/apps/apps.ts';
import { DEPLOYS_LIMIT } from '../contract/sizes.ts';

const DAY_MS = 24 * 3_600_000;
/** Time limit of a run, in ms; the next run continues. */
const BUDGET_MS = 10_000;

/** Maximum apps whose rows one statement removes. */
const DELETED_STEP = 5;

/** Returns a time, ISO 8601. At the time `at`, apps that were deleted after the returned time can be undeleted. */
export function undeletableSince(at: string): string {
  return new Date(Date.parse(at) - UNDELETABLE_MS).toISOString();
}

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

/** Deletes apps that can no longer be undeleted, then the old rows that `removeOld` names, such as events and deploys. */
export async function prune({ db, env, at }: Now): Promise<void> {
  const before = new Date(Date.parse(at) - retentionMs(env)).toISOString();
  const end = Date.now() + BUDGET_MS;
  while (Date.now() < end && (await removeDeleted(db, undeletableSince(at), DELETED_STEP)) > 0);
  await removeOld(db, before, DEPLOYS_LIMIT, () => Date.now() < end);
}
