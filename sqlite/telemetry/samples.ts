// Removal of old rows, for the tables that keep some of each app's requests.
import type { Database } from 'better-sqlite3';

/** Queries that keep such a table small. @param table part of the SQL text */
export function sampleQueries(database: Database, table: 'requests' | 'spans') {
  const trim = database.prepare<[string, string, number]>(
    `DELETE FROM ${table} WHERE app_id = ? AND id <= (
       SELECT id FROM ${table} WHERE app_id = ? ORDER BY id DESC LIMIT 1 OFFSET ?)`,
  );
  // Reads only the oldest rows: after the clock was set back, it would otherwise read all of them each time.
  const deleteBefore = database.prepare<[number, number]>(
    `DELETE FROM ${table} WHERE id IN (
       SELECT id FROM (SELECT id, started_at FROM ${table} ORDER BY id LIMIT ?) WHERE started_at < ?)`,
  );
  const deleteOf = database.prepare<[string, number]>(
    `DELETE FROM ${table} WHERE id IN (SELECT id FROM ${table} WHERE app_id = ? LIMIT ?)`,
  );
  const apps = database.prepare<[], { app_id: string }>(`SELECT DISTINCT app_id FROM ${table}`);

  return {
    /** Removes all but the newest `count` rows of an app. @returns how many */
    trim: (appId: string, count: number): number => trim.run(appId, appId, count).changes,
    /** Removes up to `limit` rows of requests that began before `at`. @returns how many */
    deleteBefore: (at: number, limit: number): number => deleteBefore.run(limit, at).changes,
    /** Removes up to `limit` rows of an app. @returns how many */
    deleteOf: (appId: string, limit: number): number => deleteOf.run(appId, limit).changes,
    /** The ids of the apps that have rows. */
    apps: (): string[] => apps.all().map(({ app_id }) => app_id),
  };
}
