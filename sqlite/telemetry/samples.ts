// Queries that the tables `requests` and `spans` share: they remove rows, and return the bytes of each app's rows.
import type { Database } from 'better-sqlite3';

type Table = 'requests' | 'spans';

/** Returns SQL for the approximate bytes of a row and its index entries. @param row prefix of columns, such as `new.` */
const sizeOf = (row: string) => `(300 + octet_length(${row}path))`;

/** Returns SQL that creates the table `sizes`: the bytes of each app's rows in `table`. Triggers keep it current. */
export function sizesMigration(table: Table): string {
  return `
  CREATE TABLE sizes (
    app_id TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  INSERT INTO sizes SELECT app_id, sum(${sizeOf('')}) FROM ${table} GROUP BY app_id;
  CREATE TRIGGER ${table}_added AFTER INSERT ON ${table} BEGIN
    INSERT INTO sizes VALUES (new.app_id, ${sizeOf('new.')})
      ON CONFLICT (app_id) DO UPDATE SET bytes = bytes + excluded.bytes;
  END;
  CREATE TRIGGER ${table}_removed AFTER DELETE ON ${table} BEGIN
    UPDATE sizes SET bytes = bytes - ${sizeOf('old.')} WHERE app_id = old.app_id;
    DELETE FROM sizes WHERE app_id = old.app_id AND bytes = 0;
  END;
  `;
}

/** Returns the shared queries of a table. */
export function sampleQueries(database: Database, table: Table) {
  const trim = database.prepare<[string, string, number]>(
    `DELETE FROM ${table} WHERE app_id = ? AND id <= (
       SELECT id FROM ${table} WHERE app_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`,
  );
  // Reads only the rows with the lowest ids: `started_at` has no index, so a search by time alone would read all rows.
  const deleteBefore = database.prepare<[number, number]>(
    `DELETE FROM ${table} WHERE id IN (
       SELECT id FROM (SELECT id, started_at FROM ${table} ORDER BY id LIMIT ?) WHERE started_at < ?)`,
  );
  const deleteOf = database.prepare<[string, number]>(
    `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE app_id = ? LIMIT ?)`,
  );
  const removeOldest = database.prepare<{ app: string; limit: number; bytes: number }>(
    `DELETE FROM ${table} WHERE app_id = @app AND id <= (SELECT max(id) FROM (
       SELECT id, size, sum(size) OVER (ORDER BY id) AS total FROM (
         SELECT id, ${sizeOf('')} AS size FROM ${table} WHERE app_id = @app ORDER BY id LIMIT @limit))
       WHERE total - size < @bytes)`,
  );
  const sizes = database.prepare<[], { app_id: string; bytes: number }>('SELECT app_id, bytes FROM sizes');

  return {
    /** Keeps the newest `count` rows of an app, and removes the others. @returns how many it removed */
    trim: (appId: string, count: number): number => trim.run(appId, appId, count).changes,
    /** Among the `limit` oldest rows, removes requests that began before `at`, in ms since 1970. @returns how many */
    deleteBefore: (at: number, limit: number): number => deleteBefore.run(limit, at).changes,
    /** Removes up to `limit` rows of an app. @returns how many */
    deleteOf: (appId: string, limit: number): number => deleteOf.run(appId, limit).changes,
    /** Removes an app's oldest rows until they free `bytes`, but at most `limit` rows. @returns how many */
    removeOldest: (app: string, limit: number, { bytes }: { bytes: number }): number =>
      removeOldest.run({ app, limit, bytes }).changes,
    /** Returns the bytes of each app's rows. */
    sizes: (): { app_id: string; bytes: number }[] => sizes.all(),
    /** Returns the ids of the apps that have rows. */
    apps: (): string[] => sizes.all().map(({ app_id }) => app_id),
  };
}
