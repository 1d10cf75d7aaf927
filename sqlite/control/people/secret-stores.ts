// Secrets Stores of accounts, and the encrypted secrets in them.
import { type Reader, rowsOf } from '../reads.ts';

export interface SecretStore {
  id: string;
  name: string;
  created_at: string;
}

/** One secret, without its value. */
export interface StoredSecret {
  id: string;
  store_id: string;
  name: string;
  comment: string;
  /** A JSON list. */
  scopes: string;
  created_at: string;
  updated_at: string;
}

const COLUMNS = 'id, store_id, name, comment, scopes, created_at, updated_at';

export function listStores(db: Reader, owner: string): Promise<SecretStore[]> {
  return rowsOf<SecretStore>(
    db,
    'SELECT id, name, created_at FROM secret_stores WHERE owner_id = ? ORDER BY name',
    owner,
  );
}

/** Adds a store. @returns false when the account has one of that name, or `limit` stores already */
export async function addStore(
  db: D1Database,
  { id, owner, name, at, limit }: { id: string; owner: string; name: string; at: string; limit: number },
): Promise<boolean> {
  const { meta } = await db
    .prepare(
      `INSERT INTO secret_stores (id, owner_id, name, created_at)
       SELECT ?1, ?2, ?3, ?4 WHERE (SELECT count(*) FROM secret_stores WHERE owner_id = ?2) < ?5
       ON CONFLICT (owner_id, name) DO NOTHING`,
    )
    .bind(id, owner, name, at, limit)
    .run();
  return meta.changes > 0;
}

/** Deletes a store. @returns false when it does not exist, or has secrets */
export async function deleteStore(db: D1Database, id: string): Promise<boolean> {
  const { meta } = await db
    .prepare(
      'DELETE FROM secret_stores WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM store_secrets WHERE store_id = ?1)',
    )
    .bind(id)
    .run();
  return meta.changes > 0;
}

export function listStoreSecrets(db: Reader, store: string): Promise<StoredSecret[]> {
  return rowsOf<StoredSecret>(
    db,
    `SELECT ${COLUMNS} FROM store_secrets WHERE store_id = ? ORDER BY name`,
    store,
  );
}

/** Returns a secret with its encrypted value as base64; null for an unknown one. */
export async function findStoreSecret(
  db: Reader,
  store: string,
  id: string,
): Promise<(StoredSecret & { sealed: string }) | null> {
  const query = `SELECT ${COLUMNS}, sealed FROM store_secrets WHERE store_id = ? AND id = ?`;
  return (await rowsOf<StoredSecret & { sealed: string }>(db, query, store, id))[0] ?? null;
}

/** Returns the encrypted value and the scopes of the secret that an account's app has bound; null for an unknown one. */
export async function findBoundSecret(
  db: Reader,
  { owner, store, name }: { owner: string; store: string; name: string },
): Promise<{ sealed: string; scopes: string } | null> {
  const query = `SELECT sealed, scopes FROM store_secrets WHERE name = ?1 AND store_id =
    (SELECT id FROM secret_stores WHERE id = ?2 AND owner_id = ?3)`;
  return (await rowsOf<{ sealed: string; scopes: string }>(db, query, name, store, owner))[0] ?? null;
}

/**
 * Adds all secrets or none.
 * @returns false when the account would have more than `limit` secrets
 * @throws when the store has a secret of one of the names already
 */
export async function addStoreSecrets(
  db: D1Database,
  owner: string,
  added: (StoredSecret & { sealed: string })[],
  limit: number,
): Promise<boolean> {
  // One statement checks the limit for all new secrets and adds them, so either all are added or none.
  const statement = db.prepare(
    `INSERT INTO store_secrets (id, store_id, name, sealed, comment, scopes, created_at, updated_at)
     SELECT value ->> 'id', value ->> 'store_id', value ->> 'name', value ->> 'sealed', value ->> 'comment',
       value ->> 'scopes', value ->> 'created_at', value ->> 'updated_at' FROM json_each(?1)
     WHERE (SELECT count(*) FROM store_secrets JOIN secret_stores ON secret_stores.id = store_id
       WHERE owner_id = ?2) + ?3 <= ?4`,
  );
  const { meta } = await statement.bind(JSON.stringify(added), owner, added.length, limit).run();
  return meta.changes > 0;
}

/** Changes the given fields of a secret. */
export async function updateStoreSecret(
  db: D1Database,
  id: string,
  { sealed, comment, scopes, at }: { sealed?: string; comment?: string; scopes?: string; at: string },
): Promise<void> {
  await db
    .prepare(
      `UPDATE store_secrets SET sealed = coalesce(?2, sealed), comment = coalesce(?3, comment),
       scopes = coalesce(?4, scopes), updated_at = ?5 WHERE id = ?1`,
    )
    .bind(id, sealed ?? null, comment ?? null, scopes ?? null, at)
    .run();
}

export async function deleteStoreSecret(db: D1Database, id: string): Promise<void> {
  await db.prepare('DELETE FROM store_secrets WHERE id = ?').bind(id).run();
}
