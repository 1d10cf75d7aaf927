// The queries for an app's lifecycle.
import type { Mark } from '../../../handlers/contract/apps/life.ts';
import { APP_COLUMNS, type AppRow } from './apps.ts';

/** Returns the app, and whether a deploy of it is queued or building; null for an unknown app. */
export async function readAppLife(
  db: D1Database,
  id: string,
): Promise<{ app: AppRow; deploying: boolean } | null> {
  const row = await db
    .prepare(
      `SELECT ${APP_COLUMNS},
         EXISTS (SELECT 1 FROM deploys WHERE app_id = apps.id AND status IN ('queued', 'building')) AS deploying
       FROM apps WHERE id = ? AND deleted_at IS NULL`,
    )
    .bind(id)
    .first<AppRow & { deploying: number }>();
  if (row === null) return null;
  const { deploying, ...app } = row;
  return { app, deploying: deploying === 1 };
}

/**
 * Returns the statement that writes a mark.
 * @param at the time of the mark, ISO 8601
 * @param before the app before the wake that `mark_asleep_again` undoes
 */
export function markApp(
  db: D1Database,
  mark: Mark,
  id: string,
  at: string,
  before: AppRow,
): D1PreparedStatement {
  const set = (columns: string, ...values: (string | null)[]) =>
    db
      .prepare(`UPDATE apps SET ${columns} WHERE id = ? AND deleted_at IS NULL RETURNING id`)
      .bind(...values, id);
  switch (mark) {
    case 'mark_asleep':
      return set('asleep_since = ?', at);
    case 'mark_awake':
      return set('asleep_since = NULL, woke_at = ?', at);
    case 'mark_asleep_again':
      return set('asleep_since = ?, woke_at = ?', before.asleep_since, before.woke_at);
    case 'mark_running':
      return set(`desired_state = 'running', asleep_since = NULL, woke_at = ?`, at);
    case 'mark_stopped':
      return set(`desired_state = 'stopped', asleep_since = NULL`);
  }
}

/** Returns ids of running, deployed apps that were neither woken nor deployed since `before`, ISO 8601. */
export async function sleepCandidates(db: D1Database, before: string): Promise<string[]> {
  const { results } = await db
    .prepare(
      `SELECT id FROM apps
       WHERE deleted_at IS NULL AND desired_state = 'running' AND asleep_since IS NULL AND live_deploy_id IS NOT NULL
         AND coalesce(woke_at, '') < ?1 AND coalesce(deployed_at, '') < ?1
         AND NOT EXISTS (SELECT 1 FROM deploys WHERE app_id = apps.id AND created_at >= ?1)`,
    )
    .bind(before)
    .all<{ id: string }>();
  return results.map(({ id }) => id);
}

/** Returns the ids of sleeping apps among `ids`. */
export async function sleepingOf(db: D1Database, ids: string[]): Promise<string[]> {
  if (ids.length === 0) return [];
  const { results } = await db
    .prepare('SELECT id FROM apps WHERE id IN (SELECT value FROM json_each(?)) AND asleep_since IS NOT NULL')
    .bind(JSON.stringify(ids))
    .all<{ id: string }>();
  return results.map(({ id }) => id);
}
