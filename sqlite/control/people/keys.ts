// API keys of accounts.
import { type Page, type Position, pageOf } from '../page.ts';
import { type Reader, withRetries } from '../reads.ts';

export interface KeyRow {
  id: string;
  account_id: string;
  name: string;
  /** Its maximum permission. */
  scope: 'read' | 'deploy' | 'admin';
  /** The only app that it is for; null for all. */
  app_id: string | null;
  created_at: string;
  expires_at: string | null;
}

/** A key with the slug of its app. */
export interface ListedKey extends KeyRow {
  app_slug: string | null;
  last_used_at: string | null;
}

/** A key as `findKey` returns it. */
export type FoundKey = KeyRow & Pick<ListedKey, 'last_used_at'>;

/** Maximum keys of one account, expired ones included. */
export const KEYS_LIMIT = 1_000;

const LISTED = `keys.id, account_id, name, scope, app_id, keys.created_at, expires_at, last_used_at,
  (SELECT coalesce(deleted_slug, slug) FROM apps WHERE apps.id = app_id) AS app_slug`;

/** Returns an API key; null for an unknown one. @param hash SHA-256 of the key, hexadecimal */
export async function findKey(db: D1Database, hash: string): Promise<FoundKey | null> {
  return withRetries(() => findKeyStatement(db, hash).first<FoundKey>());
}

/** The statement of `findKey`, for a batch. */
export function findKeyStatement(db: D1Database, hash: string): D1PreparedStatement {
  const columns = 'id, account_id, name, scope, app_id, created_at, expires_at, last_used_at';
  return db.prepare(`SELECT ${columns} FROM keys WHERE hash = ?`).bind(hash);
}

/** Whether a key has not been revoked. @param id the id of its row, not the key itself */
export async function hasKey(db: Reader, id: string): Promise<boolean> {
  const [found] = await db.batch([db.prepare('SELECT 1 FROM keys WHERE id = ?').bind(id)]);
  return found!.results.length > 0;
}

/** Records the use of a key at `at`, if the last recorded use was before `before`. Times are ISO 8601. */
export async function touchKey(db: D1Database, id: string, at: string, before: string): Promise<void> {
  await db
    .prepare(
      'UPDATE keys SET last_used_at = ?2 WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?3)',
    )
    .bind(id, at, before)
    .run();
}

/**
 * Adds a key.
 * @param hash SHA-256 of the key, hexadecimal
 * @returns null when the account does not exist; undefined when it has no role on the key's app; `full` with `KEYS_LIMIT`
 *   keys
 */
export async function insertKey(
  db: D1Database,
  row: KeyRow,
  hash: string,
): Promise<ListedKey | null | undefined | 'full'> {
  const count = '(SELECT count(*) FROM keys WHERE account_id = accounts.id)';
  const [account, inserted] = await db.batch<ListedKey & { count: number }>([
    db.prepare(`SELECT ${count} AS count FROM accounts WHERE id = ?`).bind(row.account_id),
    db
      .prepare(
        `INSERT INTO keys (id, account_id, name, hash, scope, app_id, created_at, expires_at)
         SELECT ?1, id, ?3, ?4, ?5, ?6, ?7, ?8 FROM accounts WHERE id = ?2 AND ${count} < ${KEYS_LIMIT} AND (?6 IS NULL OR EXISTS (
           SELECT 1 FROM apps WHERE apps.id = ?6 AND deleted_at IS NULL AND (owner_id = ?2 OR EXISTS (
             SELECT 1 FROM collaborators WHERE collaborators.app_id = ?6 AND collaborators.account_id = ?2))))
         RETURNING ${LISTED}`,
      )
      .bind(row.id, row.account_id, row.name, hash, row.scope, row.app_id, row.created_at, row.expires_at),
  ]);
  const found = account!.results[0];
  if (found === undefined) return null;
  return found.count >= KEYS_LIMIT ? 'full' : inserted!.results[0];
}

/** Returns an account's keys, oldest first; null for an unknown account. */
export async function listKeys(
  db: Reader,
  accountId: string,
  { after, limit }: Position,
): Promise<Page<ListedKey> | null> {
  const [account, keys] = await db.batch<ListedKey>([
    db.prepare('SELECT id FROM accounts WHERE id = ?').bind(accountId),
    db
      .prepare(`SELECT ${LISTED} FROM keys WHERE account_id = ? AND id > ? ORDER BY id LIMIT ?`)
      .bind(accountId, after, limit + 1),
  ]);
  return account!.results.length === 0 ? null : pageOf(keys!.results, limit, ({ id }) => [id]);
}

/**
 * Removes a key.
 * @param accountId the account that must have the key; null for any
 * @returns false for an unknown key
 */
export async function deleteKey(db: D1Database, id: string, accountId: string | null): Promise<boolean> {
  const statement = db.prepare(
    'DELETE FROM keys WHERE id = ?1 AND (?2 IS NULL OR account_id = ?2) RETURNING id',
  );
  return (await statement.bind(id, accountId).first()) !== null;
}

/** Removes all API keys of an account. */
export async function deleteKeysOf(db: D1Database, accountId: string): Promise<void> {
  await db.prepare('DELETE FROM keys WHERE account_id = ?').bind(accountId).run();
}
