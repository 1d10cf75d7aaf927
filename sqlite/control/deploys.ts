// Rows of `deploys`: the host's, copied.
import type { DeployFact, DeployStatus } from '../../handlers/contract/host-calls.ts';
import { readOfApp } from './apps.ts';
import { type Page, pageOf } from './page.ts';
import type { Reader } from './reads.ts';

/** One deploy. `steps` is JSON. */
export type DeployRow = Omit<DeployFact, 'steps'> & { steps: string };

/**
 * Deploys of an app, newest first.
 * @param filter.before `created_at` and id to go on from
 * @returns null for an unknown app
 */
export async function listDeploys(
  db: Reader,
  appId: string,
  filter: { status: DeployStatus | null; before: [string, string] | null; limit: number },
): Promise<Page<DeployRow> | null> {
  const [at, id] = filter.before ?? [null, null];
  const statement = db
    .prepare(
      `SELECT * FROM deploys
       WHERE app_id = ?1 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR (created_at, id) < (?3, ?4))
       ORDER BY created_at DESC, id DESC LIMIT ?5`,
    )
    .bind(appId, filter.status, at, id, filter.limit + 1);
  const rows = await readOfApp<DeployRow>(db, appId, statement);
  return rows && pageOf(rows, filter.limit, (row) => [row.created_at, row.id]);
}

/** @returns null for an unknown app, undefined for an unknown deploy of it */
export async function findDeploy(
  db: Reader,
  appId: string,
  deployId: string,
): Promise<DeployRow | null | undefined> {
  const statement = db.prepare('SELECT * FROM deploys WHERE id = ? AND app_id = ?').bind(deployId, appId);
  const rows = await readOfApp<DeployRow>(db, appId, statement);
  return rows === null ? null : rows[0];
}
