// Rows of `calls`: for each event of an app, such as a request, the calls that it waited for.
import type { Database } from 'better-sqlite3';

/** One entry for each schema version of `calls.sqlite`, in order. Never change a released one: add the next. */
export const CALL_MIGRATIONS = [
  `
  CREATE TABLE calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id TEXT NOT NULL,
    at INTEGER NOT NULL,                    -- in ms since 1970
    trace_id TEXT NOT NULL,
    calls TEXT NOT NULL                     -- JSON
  ) STRICT;
  CREATE INDEX calls_of_app ON calls (app_id, id);
  CREATE INDEX calls_of_trace ON calls (trace_id);
  `,
];

/** Approximate bytes of a row and its index entries, without its JSON. */
export const ROW_BYTES = 200;

export interface CallsRow {
  id: number;
  app_id: string;
  at: number;
  trace_id: string;
  calls: string;
}

export function callQueries(database: Database) {
  const add = database.prepare<Omit<CallsRow, 'id'>>(
    'INSERT INTO calls (app_id, at, trace_id, calls) VALUES (@app_id, @at, @trace_id, @calls)',
  );
  const ofTrace = database.prepare<[string, string, number], CallsRow>(
    'SELECT * FROM calls WHERE trace_id = ? AND app_id = ? ORDER BY id LIMIT ?',
  );
  const trimBytes = database.prepare<[string, string, number]>(
    `DELETE FROM calls WHERE app_id = ? AND id <= (
       SELECT max(id) FROM (
         SELECT id, sum(${ROW_BYTES} + octet_length(calls)) OVER (ORDER BY id DESC) AS bytes FROM calls WHERE app_id = ?)
       WHERE bytes > ?)`,
  );
  // Reads only the rows with the lowest ids: `at` has no index, so a search by time alone would read all rows.
  const deleteBefore = database.prepare<[number, number]>(
    `DELETE FROM calls WHERE id IN (
       SELECT id FROM (SELECT id, at FROM calls ORDER BY id LIMIT ?) WHERE at < ?)`,
  );
  const deleteOf = database.prepare<[string, number]>(
    'DELETE FROM calls WHERE id IN (SELECT id FROM calls WHERE app_id = ? LIMIT ?)',
  );
  const apps = database.prepare<[], { app_id: string }>('SELECT DISTINCT app_id FROM calls');

  return {
    add: (row: Omit<CallsRow, 'id'>): void => {
      add.run(row);
    },
    /** Returns rows of an app's trace, oldest first. */
    ofTrace: (appId: string, traceId: string, limit: number): CallsRow[] =>
      ofTrace.all(traceId, appId, limit),
    /** Keeps an app's newest rows, up to `bytes` together, and removes the others. Reads all rows of the app. */
    trimBytes: (appId: string, bytes: number): void => {
      trimBytes.run(appId, appId, bytes);
    },
    /** Among the `limit` oldest rows, removes those before `at`, in ms since 1970. @returns how many */
    deleteBefore: (at: number, limit: number): number => deleteBefore.run(limit, at).changes,
    /** Removes up to `limit` rows of an app. @returns how many */
    deleteOf: (appId: string, limit: number): number => deleteOf.run(appId, limit).changes,
    apps: (): string[] => apps.all().map(({ app_id }) => app_id),
  };
}
export type CallQueries = ReturnType<typeof callQueries>;
