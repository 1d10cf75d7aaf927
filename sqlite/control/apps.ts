// Rows of `apps`: reading them.
import type { ProcessState } from '../../handlers/host-types.ts';
import { type Page, pageOf } from './page.ts';

/** One app, tombstones left out. */
export interface AppRow {
  id: string;
  slug: string;
  owner_id: string;
  desired_state: 'running' | 'stopped';
  asleep_since: string | null;
  woke_at: string | null;
  generation: number;
  process_state: ProcessState;
  live_deploy_id: string | null;
  deployed_at: string | null;
  last_error: string | null;
  client_rpm: number | null;
  app_rpm: number | null;
  created_at: string;
  /** 1 while a deploy is queued or building. */
  deploying: 0 | 1;
}

export const APP_COLUMNS = `id, slug, owner_id, desired_state, asleep_since, woke_at, generation, process_state,
  live_deploy_id, deployed_at, last_error, client_rpm, app_rpm, created_at,
  EXISTS (SELECT 1 FROM deploys WHERE deploys.app_id = apps.id AND deploys.status IN ('queued', 'building')) AS deploying`;

/** The statement that reads one app by id. For batches that answer 404 and their rows in one round trip. */
export function selectApp(db: D1Database, id: string): D1PreparedStatement {
  return db.prepare(`SELECT ${APP_COLUMNS} FROM apps WHERE id = ? AND deleted_at IS NULL`).bind(id);
}

export async function findApp(db: D1Database, id: string): Promise<AppRow | null> {
  return selectApp(db, id).first<AppRow>();
}

export async function findAppBySlug(db: D1Database, slug: string): Promise<AppRow | null> {
  return db
    .prepare(`SELECT ${APP_COLUMNS} FROM apps WHERE slug = ? AND deleted_at IS NULL`)
    .bind(slug)
    .first<AppRow>();
}

/**
 * Apps, newest first.
 * @param filter.before the id to go on from
 */
export async function listApps(
  db: D1Database,
  filter: { owner: string | null; before: string | null; limit: number },
): Promise<Page<AppRow>> {
  const { results } = await db
    .prepare(
      `SELECT ${APP_COLUMNS} FROM apps
       WHERE deleted_at IS NULL AND (?1 IS NULL OR owner_id = ?1) AND (?2 IS NULL OR id < ?2)
       ORDER BY id DESC LIMIT ?3`,
    )
    .bind(filter.owner, filter.before, filter.limit + 1)
    .all<AppRow>();
  return pageOf(results, filter.limit, (row) => [row.id]);
}

/**
 * Runs a read beside the question whether its app exists, in one round trip.
 * @returns null for an unknown app
 */
export async function readOfApp<Row>(
  db: D1Database,
  appId: string,
  statement: D1PreparedStatement,
): Promise<Row[] | null> {
  const exists = db.prepare('SELECT 1 FROM apps WHERE id = ? AND deleted_at IS NULL').bind(appId);
  const [app, rows] = await db.batch<Row>([exists, statement]);
  return app!.results.length === 0 ? null : rows!.results;
}
