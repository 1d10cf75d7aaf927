// The accounts, besides its owner, that have a role on an app.

import { LIVE_APP, readOfApp } from '../apps/apps.ts';
import { type Page, type Position, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';
import type { Role } from './access.ts';

export interface CollaboratorRow {
  app_id: string;
  account_id: string;
  role: Role;
  created_at: string;
}

/** A collaborator, with name and e-mail address. */
export interface NamedCollaborator extends CollaboratorRow {
  name: string;
  email: string | null;
}

/** @returns null for an unknown app */
export async function listCollaborators(
  db: Reader,
  appId: string,
  { after, limit }: Position,
): Promise<Page<NamedCollaborator> | null> {
  const statement = db
    .prepare(
      `SELECT collaborators.*, name, email FROM collaborators JOIN accounts ON accounts.id = account_id
       WHERE app_id = ? AND account_id > ? ORDER BY account_id LIMIT ?`,
    )
    .bind(appId, after, limit + 1);
  const rows = await readOfApp<NamedCollaborator>(db, appId, statement);
  return rows && pageOf(rows, limit, ({ account_id }) => [account_id]);
}

/** @returns null for an unknown app, undefined for an unknown account */
export async function setCollaborator(
  db: D1Database,
  row: CollaboratorRow,
): Promise<NamedCollaborator | null | undefined> {
  const statement = db
    .prepare(
      `INSERT INTO collaborators (app_id, account_id, role, created_at)
       SELECT ?1, ?2, ?3, ?4 WHERE ${LIVE_APP} AND EXISTS (SELECT 1 FROM accounts WHERE id = ?2)
       ON CONFLICT (app_id, account_id) DO UPDATE SET role = excluded.role
       RETURNING app_id, account_id, role, created_at, (SELECT name FROM accounts WHERE id = account_id) AS name,
         (SELECT email FROM accounts WHERE id = account_id) AS email`,
    )
    .bind(row.app_id, row.account_id, row.role, row.created_at);
  const rows = await readOfApp<NamedCollaborator>(db, row.app_id, statement);
  return rows === null ? null : rows[0];
}

/** @returns null for an unknown app, false for an account that is not a collaborator */
export async function deleteCollaborator(
  db: D1Database,
  appId: string,
  accountId: string,
): Promise<boolean | null> {
  const statement = db
    .prepare('DELETE FROM collaborators WHERE app_id = ? AND account_id = ? RETURNING app_id')
    .bind(appId, accountId);
  const rows = await readOfApp(db, appId, statement);
  return rows && rows.length > 0;
}
