// Rows of `deploys`: copies of the host's rows.
import type { AsOf, DeployFact, DeployStatus } from '../../../handlers/contract/host/host-calls.ts';
import { type Page, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';
import { readOfApp } from './apps.ts';

/** One deploy. `steps` and `version` are JSON. */
export type DeployRow = Omit<
  DeployFact,
  'steps' | 'can_roll_back' | 'requested_by' | 'version' | 'warnings'
> & {
  steps: string;
  can_roll_back: 0 | 1;
  requested_by: string | null;
  version: string | null;
};

const COLUMNS = `id, app_id, sha, ref, message, author, trigger, status, can_roll_back, steps, error, created_at,
  started_at, finished_at, requested_by, version`;

/**
 * Returns deploys of an app, newest first.
 * @param filter.before the `seq` to continue from
 * @returns null for an unknown app
 */
export async function listDeploys(
  db: Reader,
  appId: string,
  filter: { status: DeployStatus | null; before: number | null; limit: number },
): Promise<Page<DeployRow> | null> {
  const statement = db
    .prepare(
      `SELECT ${COLUMNS}, seq FROM deploys
       WHERE app_id = ?1 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR seq < ?3)
       ORDER BY seq DESC LIMIT ?4`,
    )
    .bind(appId, filter.status, filter.before, filter.limit + 1);
  const rows = await readOfApp<DeployRow & { seq: number }>(db, appId, statement);
  if (rows === null) return null;
  const { rows: kept, next } = pageOf(rows, filter.limit, ({ seq }) => [String(seq)]);
  return { rows: kept.map(({ seq: _, ...row }) => row), next };
}

/** Returns the newest deploy of each app that has one, by app id. `at`: when it ended, else began, else was requested. */
export async function lastDeploys(
  db: Reader,
  appIds: string[],
): Promise<Map<string, Pick<DeployRow, 'id' | 'message' | 'author' | 'status'> & { at: string }>> {
  const statement = db
    .prepare(
      `SELECT app_id, deploys.id, message, author, status, coalesce(finished_at, started_at, created_at) AS at
       FROM json_each(?1) AS asked JOIN deploys ON app_id = asked.value
         AND seq = (SELECT max(seq) FROM deploys WHERE app_id = asked.value)`,
    )
    .bind(JSON.stringify(appIds));
  type Row = Pick<DeployRow, 'id' | 'app_id' | 'message' | 'author' | 'status'> & { at: string };
  const [deploys] = await db.batch<Row>([statement]);
  return new Map(deploys!.results.map(({ app_id, ...deploy }) => [app_id, deploy]));
}

/** @returns null for an unknown app, undefined for an unknown deploy of it */
export async function findDeploy(
  db: Reader,
  appId: string,
  deployId: string,
): Promise<DeployRow | null | undefined> {
  const statement = db
    .prepare(`SELECT ${COLUMNS} FROM deploys WHERE id = ? AND app_id = ?`)
    .bind(deployId, appId);
  const rows = await readOfApp<DeployRow>(db, appId, statement);
  return rows === null ? null : rows[0];
}

/**
 * Returns the statement that writes a deploy of the host, unless the row has a newer fact of this host. A host that is no
 * longer the app's home updates only rows that it wrote last: the next home may have ended the deploy.
 * @param host the id of the host; null for the only host
 */
export function writeDeploy(
  db: D1Database,
  deploy: DeployFact,
  { outbox, seq }: AsOf,
  host: string | null,
): D1PreparedStatement {
  return db
    .prepare(
      `INSERT INTO deploys (id, app_id, sha, ref, message, author, trigger, status, steps, error, created_at,
         started_at, finished_at, observed_outbox, observed_seq, can_roll_back, requested_by, warnings, version, seq)
       SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
         (SELECT coalesce(max(seq), 0) + 1 FROM deploys WHERE app_id = ?2)
       WHERE EXISTS (SELECT 1 FROM apps WHERE id = ?2)
       ON CONFLICT (id) DO UPDATE SET status = excluded.status, steps = excluded.steps, error = excluded.error,
         message = excluded.message, author = excluded.author, sha = excluded.sha,
         started_at = excluded.started_at, finished_at = excluded.finished_at, can_roll_back = excluded.can_roll_back, warnings = excluded.warnings,
         observed_outbox = excluded.observed_outbox, observed_seq = excluded.observed_seq
         WHERE CASE WHEN observed_outbox IS excluded.observed_outbox THEN observed_seq <= excluded.observed_seq
           ELSE ?20 IS NULL OR (SELECT coalesce(home, ?20) = ?20 FROM apps WHERE apps.id = ?2) END`,
    )
    .bind(
      deploy.id,
      deploy.app_id,
      deploy.sha,
      deploy.ref,
      deploy.message,
      deploy.author,
      deploy.trigger,
      deploy.status,
      JSON.stringify(deploy.steps),
      deploy.error,
      deploy.created_at,
      deploy.started_at,
      deploy.finished_at,
      outbox,
      seq,
      deploy.can_roll_back ? 1 : 0,
      deploy.requested_by ?? null,
      JSON.stringify(deploy.warnings ?? []),
      deploy.version ? JSON.stringify(deploy.version) : null,
      host,
    );
}

/**
 * Returns the unfinished deploys of this database. Also returns the `live_deploy_id` of each app whose row in `deploys` is
 * missing or not `live`.
 * @param home only deploys of apps with this home; null in a Cellar of one host
 */
export async function doubtfulDeploys(
  db: D1Database,
  home: string | null,
  limit: number,
): Promise<{ app_id: string; id: string }[]> {
  const { results } = await db
    .prepare(
      `SELECT app_id, id FROM deploys WHERE status IN ('queued', 'building')
         AND NOT EXISTS (SELECT 1 FROM apps WHERE apps.id = app_id AND trashed_at IS NOT NULL)
         AND (?2 IS NULL OR (SELECT home FROM apps WHERE apps.id = app_id) = ?2)
       UNION ALL
       SELECT id, live_deploy_id FROM apps WHERE live_deploy_id IS NOT NULL AND deleted_at IS NULL
         AND NOT EXISTS (SELECT 1 FROM deploys WHERE id = live_deploy_id AND status = 'live')
         AND (?2 IS NULL OR home = ?2)
       LIMIT ?1`,
    )
    .bind(limit, home)
    .all<{ app_id: string; id: string }>();
  return results;
}

/**
 * Writes the host's deploys, and marks unfinished deploys as failed if the host has no record of them.
 * @param lost ids of deploys that the host does not know
 * @param host the id of the host; null for the only host
 */
export async function repairDeployRows(
  db: D1Database,
  known: DeployFact[],
  lost: string[],
  asOf: AsOf,
  at: string,
  host: string | null,
): Promise<void> {
  // Marks the row as written by this host, so that a late fact of an earlier home does not change it.
  const end = db.prepare(
    `UPDATE deploys SET status = 'failed', error = 'the host has no record of this deploy', finished_at = ?2,
       observed_outbox = ?3, observed_seq = ?4
     WHERE id = ?1 AND status IN ('queued', 'building') AND (observed_outbox IS NOT ?3 OR observed_seq <= ?4)`,
  );
  const ends = lost.map((id) => end.bind(id, at, asOf.outbox, asOf.seq));
  const writes = [...known.map((deploy) => writeDeploy(db, deploy, asOf, host)), ...ends];
  if (writes.length > 0) await db.batch(writes);
}
