// Rows of the host's `secrets` table: encrypted values that an app's Worker gets besides its variables.
import type { Database } from 'better-sqlite3';

/** One encrypted secret. Times are ISO 8601. */
export interface SecretRow {
  name: string;
  sealed: Buffer;
  createdAt: string;
  updatedAt: string;
}

export function secretQueries(database: Database) {
  const all = database.prepare<[string], SecretRow>(
    `SELECT name, sealed, created_at AS createdAt, updated_at AS updatedAt FROM secrets
     WHERE app_id = ? ORDER BY name`,
  );
  const set = database.prepare<[string, string, Buffer, string, string]>(
    `INSERT INTO secrets (app_id, name, sealed, created_at, updated_at) VALUES (?, ?, ?, ?, ?)
     ON CONFLICT (app_id, name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at`,
  );
  const remove = database.prepare<[string, string]>('DELETE FROM secrets WHERE app_id = ? AND name = ?');
  const removeAll = database.prepare<[string]>('DELETE FROM secrets WHERE app_id = ?');

  return {
    /** Returns an app's secrets, by name. */
    all: (appId: string): SecretRow[] => all.all(appId),
    set: (appId: string, name: string, sealed: Buffer, at: string): void => {
      set.run(appId, name, sealed, at, at);
    },
    /** Removes a secret. @returns whether it existed */
    delete: (appId: string, name: string): boolean => remove.run(appId, name).changes > 0,
    deleteAll: (appId: string): void => {
      removeAll.run(appId);
    },
  };
}
