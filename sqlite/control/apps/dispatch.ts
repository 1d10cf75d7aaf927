// Dispatch namespaces of accounts.
import { type Page, pageOf } from '../page.ts';
import { type Reader, rowsOf } from '../reads.ts';

export interface DispatchNamespace {
  id: string;
  name: string;
  created_at: string;
  /** Number of its scripts. */
  scripts: number;
}

const COLUMNS = `id, name, created_at, (SELECT count(*) FROM apps WHERE apps.owner_id = dispatch_namespaces.owner_id
  AND apps.dispatch_namespace = dispatch_namespaces.name AND apps.deleted_at IS NULL) AS scripts`;

export function listDispatchNamespaces(db: Reader, owner: string): Promise<DispatchNamespace[]> {
  return rowsOf(db, `SELECT ${COLUMNS} FROM dispatch_namespaces WHERE owner_id = ? ORDER BY name`, owner);
}

/**
 * Returns dispatch namespaces with the accounts that own them, by name.
 * @param filter.owner null: those of all accounts
 * @param filter.after name and owner of the last namespace of the previous page
 */
export async function pageOfDispatchNamespaces(
  db: Reader,
  { owner, after, limit }: { owner: string | null; after: readonly [string, string]; limit: number },
): Promise<Page<DispatchNamespace & { owner_id: string; owner_name: string }>> {
  const statement = db
    .prepare(
      `SELECT ${COLUMNS}, owner_id, (SELECT name FROM accounts WHERE accounts.id = owner_id) AS owner_name
       FROM dispatch_namespaces
       WHERE (?1 IS NULL OR owner_id = ?1) AND (name, owner_id) > (?2, ?3) ORDER BY name, owner_id LIMIT ?4`,
    )
    .bind(owner, ...after, limit + 1);
  const [found] = await db.batch<DispatchNamespace & { owner_id: string; owner_name: string }>([statement]);
  return pageOf(found!.results, limit, ({ name, owner_id }) => [name, owner_id]);
}

export async function findDispatchNamespace(
  db: Reader,
  owner: string,
  name: string,
): Promise<DispatchNamespace | null> {
  const query = `SELECT ${COLUMNS} FROM dispatch_namespaces WHERE owner_id = ? AND name = ?`;
  return (await rowsOf<DispatchNamespace>(db, query, owner, name))[0] ?? null;
}

/**
 * Adds a namespace, unless the account has one of that name.
 * @returns the new or existing namespace; null when the account already has `limit` others
 */
export async function addDispatchNamespace(
  db: D1Database,
  { id, owner, name, at, limit }: { id: string; owner: string; name: string; at: string; limit: number },
): Promise<DispatchNamespace | null> {
  await db
    .prepare(
      `INSERT INTO dispatch_namespaces (id, owner_id, name, created_at)
       SELECT ?1, ?2, ?3, ?4 WHERE (SELECT count(*) FROM dispatch_namespaces WHERE owner_id = ?2) < ?5
       ON CONFLICT (owner_id, name) DO NOTHING`,
    )
    .bind(id, owner, name, at, limit)
    .run();
  return findDispatchNamespace(db, owner, name);
}

/** Whether a namespace has no scripts. A namespace with scripts is neither renamed nor deleted. */
const IS_EMPTY = `NOT EXISTS (SELECT 1 FROM apps WHERE apps.owner_id = dispatch_namespaces.owner_id
  AND apps.dispatch_namespace = dispatch_namespaces.name AND apps.deleted_at IS NULL)`;

/** Renames a namespace. @returns false when it does not exist, has scripts, or another namespace has the new name */
export async function renameDispatchNamespace(
  db: D1Database,
  owner: string,
  name: string,
  to: string,
): Promise<boolean> {
  const { meta } = await db
    .prepare(
      `UPDATE OR IGNORE dispatch_namespaces SET name = ?3 WHERE owner_id = ?1 AND name = ?2 AND ${IS_EMPTY}`,
    )
    .bind(owner, name, to)
    .run();
  return meta.changes > 0;
}

/** Deletes a namespace. @returns false when it does not exist, or has scripts */
export async function deleteDispatchNamespace(db: D1Database, owner: string, name: string): Promise<boolean> {
  const { meta } = await db
    .prepare(`DELETE FROM dispatch_namespaces WHERE owner_id = ?1 AND name = ?2 AND ${IS_EMPTY}`)
    .bind(owner, name)
    .run();
  return meta.changes > 0;
}
