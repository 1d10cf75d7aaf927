// Accounts: they own apps, or have roles on them.
import { type Page, type Position, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';

/**
 * Creates the first account if there is none, and its key if that is not stored yet.
 * @param key.hash SHA-256 of the key, hexadecimal
 */
export async function ensureFirstAccount(
  db: D1Database,
  account: { id: string; name: string; at: string },
  key: { id: string; name: string; hash: string },
): Promise<void> {
  await db.batch([
    db
      .prepare(
        `INSERT INTO accounts (id, name, role, is_admin, created_at) VALUES (?, ?, 'owner', 1, ?)
         ON CONFLICT (role) WHERE role = 'owner' DO NOTHING`,
      )
      .bind(account.id, account.name, account.at),
    db
      .prepare(
        `INSERT INTO keys (id, account_id, name, hash, created_at)
         SELECT ?, id, ?, ?, ? FROM accounts WHERE role = 'owner'
         ON CONFLICT (hash) DO NOTHING`,
      )
      .bind(key.id, key.name, key.hash, account.at),
  ]);
}

export interface AccountRow {
  id: string;
  name: string;
  email: string | null;
  /** `owner`: the first account, which is also an admin. `guest`: invited to an app, and may own no apps. */
  role: 'owner' | 'admin' | 'member' | 'guest';
  /** Maximum apps that it may own; null: the maximum in the settings. */
  max_apps: number | null;
  created_at: string;
}

/** The columns with the role that the API shows: `accounts.role` only marks the first account. */
export const ACCOUNT = `id, name, email, max_apps, created_at,
  CASE WHEN role = 'owner' THEN role WHEN is_admin THEN 'admin' WHEN is_guest THEN 'guest' ELSE 'member' END AS role`;

/** Adds a member whose e-mail address an admin chose. @returns false when another account has the e-mail address */
export async function insertAccount(db: D1Database, row: AccountRow): Promise<boolean> {
  const inserted = await db
    .prepare(
      `INSERT INTO accounts (id, name, email, role, email_proved, created_at) VALUES (?, ?, ?, 'member', 1, ?)
       ON CONFLICT (email) DO NOTHING RETURNING id`,
    )
    .bind(row.id, row.name, row.email, row.created_at)
    .first();
  return inserted !== null;
}

/** Whether any account has this e-mail address. */
export async function hasEmail(db: D1Database, email: string): Promise<boolean> {
  return (await db.prepare('SELECT 1 FROM accounts WHERE email = ?').bind(email).first()) !== null;
}

/** Renames an account. @returns the account; null for an unknown id */
export function renameAccount(db: D1Database, id: string, name: string): Promise<AccountRow | null> {
  return db
    .prepare(`UPDATE accounts SET name = ?2 WHERE id = ?1 RETURNING ${ACCOUNT}`)
    .bind(id, name)
    .first<AccountRow>();
}

/** Sets how many apps an account may own. @returns the account; null for an unknown id */
export function setMaxApps(db: D1Database, id: string, maxApps: number | null): Promise<AccountRow | null> {
  return db
    .prepare(`UPDATE accounts SET max_apps = ?2 WHERE id = ?1 RETURNING ${ACCOUNT}`)
    .bind(id, maxApps)
    .first<AccountRow>();
}

/** Returns an account by its id, or the first account if `id` is null; null for an unknown id. */
export async function findAccount(db: Reader, id: string | null): Promise<AccountRow | null> {
  const statement =
    id === null
      ? db.prepare(`SELECT ${ACCOUNT} FROM accounts WHERE role = 'owner'`)
      : db.prepare(`SELECT ${ACCOUNT} FROM accounts WHERE id = ?`).bind(id);
  const [found] = await db.batch<AccountRow>([statement]);
  return found!.results[0] ?? null;
}

/** Returns accounts, oldest first. */
export async function listAccounts(db: Reader, { after, limit }: Position): Promise<Page<AccountRow>> {
  const statement = db.prepare(`SELECT ${ACCOUNT} FROM accounts WHERE id > ? ORDER BY id LIMIT ?`);
  const [accounts] = await db.batch<AccountRow>([statement.bind(after, limit + 1)]);
  return pageOf(accounts!.results, limit, ({ id }) => [id]);
}

/**
 * Deletes an account, unless it owns an app or is the first account. Its keys, its roles and its deleted apps that could
 * still be restored are deleted too. An app whose deletion the host has not confirmed yet still counts as an app.
 */
export async function deleteAccount(
  db: D1Database,
  id: string,
): Promise<'deleted' | 'account_not_found' | 'account_in_use' | 'account_protected'> {
  const [found] = await db.batch<{ role: string; apps: number }>([
    db
      .prepare(
        'SELECT role, (SELECT count(*) FROM apps WHERE owner_id = accounts.id AND trashed_at IS NULL) AS apps FROM accounts WHERE id = ?',
      )
      .bind(id),
    db
      .prepare(
        `DELETE FROM apps WHERE owner_id = ?1 AND trashed_at IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM accounts WHERE id = ?1 AND role = 'owner')
           AND NOT EXISTS (SELECT 1 FROM apps WHERE owner_id = ?1 AND trashed_at IS NULL)`,
      )
      .bind(id),
    db
      .prepare(
        `DELETE FROM accounts WHERE id = ?1 AND role <> 'owner'
           AND NOT EXISTS (SELECT 1 FROM apps WHERE owner_id = ?1)`,
      )
      .bind(id),
  ]);
  const account = found!.results[0];
  if (account === undefined) return 'account_not_found';
  if (account.role === 'owner') return 'account_protected';
  return account.apps > 0 ? 'account_in_use' : 'deleted';
}
