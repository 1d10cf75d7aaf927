// Dispatch namespaces of accounts.
import { type Reader, rowsOf } from '../reads.ts';

export interface DispatchNamespace {
  id: string;
  name: string;
  created_at: string;
  /** Scripts in it. */
  scripts: number;
}

const COLUMNS = `id, name, created_at, (SELECT count(*) FROM apps WHERE apps.owner_id = dispatch_namespaces.owner_id
  AND apps.dispatch_namespace = dispatch_namespaces.name AND apps.deleted_at IS NULL) AS scripts`;

export function listDispatchNamespaces(db: Reader, owner: string): Promise<DispatchNamespace[]> {
  return rowsOf(db, `SELECT ${COLUMNS} FROM dispatch_namespaces WHERE owner_id = ? ORDER BY name`, owner);
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
 * @returns null when the account has `limit` namespaces already
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

/** A namespace with scripts stays. */
const IS_EMPTY = `NOT EXISTS (SELECT 1 FROM apps WHERE apps.owner_id = dispatch_namespaces.owner_id
  AND apps.dispatch_namespace = dispatch_namespaces.name AND apps.deleted_at IS NULL)`;

/** Renames a namespace without scripts. @returns false when there is none, or another one has the name */
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

/** Deletes a namespace without scripts. @returns whether there was one */
export async function deleteDispatchNamespace(db: D1Database, owner: string, name: string): Promise<boolean> {
  const { meta } = await db
    .prepare(`DELETE FROM dispatch_namespaces WHERE owner_id = ?1 AND name = ?2 AND ${IS_EMPTY}`)
    .bind(owner, name)
    .run();
  return meta.changes > 0;
}
