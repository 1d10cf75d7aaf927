// Rows of `datapoints`: what apps write by bindings of Analytics Engine.
import type { Database } from 'better-sqlite3';

/** One entry for each schema version of `datapoints.sqlite`, applied in order. Never change one that has been released: add the next. */
export const DATAPOINT_MIGRATIONS = [
  `
  CREATE TABLE apps (
    app_id TEXT NOT NULL PRIMARY KEY,
    bytes INTEGER NOT NULL                  -- of all its points, as each row has them
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE datapoints (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id TEXT NOT NULL,
    at INTEGER NOT NULL,                    -- in ms since 1970
    dataset TEXT NOT NULL,
    "index" TEXT,
    blobs TEXT NOT NULL,                    -- JSON: texts and nulls
    doubles TEXT NOT NULL,                  -- JSON: numbers
    bytes INTEGER NOT NULL                  -- about what the row takes
  ) STRICT;
  CREATE INDEX datapoints_of_app ON datapoints (app_id, id);
  `,
];

export interface DatapointRow {
  id: number;
  app_id: string;
  at: number;
  dataset: string;
  index: string | null;
  blobs: string;
  doubles: string;
  bytes: number;
}

/** Which points are wanted, newest first; `null` does not matter. */
export interface WantedDatapoints {
  appId: string;
  dataset: string | null;
  index: string | null;
  /** In ms since 1970. */
  since: number;
  /** Points before this one, from another on. */
  before: number;
  from: number;
  limit: number;
}

/** Which of the oldest points are meant. */
interface Oldest {
  /** In ms since 1970. */
  before: number;
  bytes: number;
}

/** Typed queries over the points. */
export function datapointQueries(database: Database) {
  const add = database.prepare<Omit<DatapointRow, 'id'>>(
    `INSERT INTO datapoints (app_id, at, dataset, "index", blobs, doubles, bytes)
     VALUES (@app_id, @at, @dataset, @index, @blobs, @doubles, @bytes)`,
  );
  const addBytes = database.prepare<[string, number]>(
    'INSERT INTO apps (app_id, bytes) VALUES (?, ?) ON CONFLICT (app_id) DO UPDATE SET bytes = bytes + excluded.bytes',
  );
  const newest = database.prepare<WantedDatapoints, DatapointRow>(
    `SELECT * FROM datapoints WHERE app_id = @appId AND id < @before AND id >= @from AND at >= @since
       AND (@dataset IS NULL OR dataset = @dataset) AND (@index IS NULL OR "index" = @index)
     ORDER BY id DESC LIMIT @limit`,
  );
  const further = database.prepare<[string, number, number], { id: number }>(
    'SELECT id FROM datapoints WHERE app_id = ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?',
  );
  const first = database.prepare<[string], { at: number }>(
    'SELECT at FROM datapoints WHERE app_id = ? ORDER BY id LIMIT 1',
  );
  // A clock that was set back leaves later times before earlier ones: what goes is counted up to the last one that goes.
  const oldest = database.prepare<
    { appId: string; limit: number; before: number; bytes: number },
    { id: number; total: number }
  >(
    `SELECT id, total FROM (
       SELECT id, at, bytes, sum(bytes) OVER (ORDER BY id) AS total FROM (
         SELECT id, at, bytes FROM datapoints WHERE app_id = @appId ORDER BY id LIMIT @limit))
     WHERE at < @before AND total - bytes < @bytes ORDER BY id DESC LIMIT 1`,
  );
  const removeUpTo = database.prepare<[string, number]>(
    'DELETE FROM datapoints WHERE app_id = ? AND id <= ?',
  );
  const removeApp = database.prepare<[string]>(
    'DELETE FROM apps WHERE app_id = ? AND NOT EXISTS (SELECT 1 FROM datapoints WHERE datapoints.app_id = apps.app_id)',
  );
  const apps = database.prepare<[], { app_id: string; bytes: number }>('SELECT app_id, bytes FROM apps');

  return {
    transaction: (work: () => void): void => database.transaction(work)(),
    /** Adds points of one app. */
    add: (appId: string, rows: readonly Omit<DatapointRow, 'id' | 'app_id'>[]): void => {
      for (const row of rows) add.run({ app_id: appId, ...row });
      addBytes.run(
        appId,
        rows.reduce((sum, { bytes }) => sum + bytes, 0),
      );
    },
    /** The id of the point of an app that is `count` points before an id; null when there are not so many. */
    further: (appId: string, before: number, count: number): number | null =>
      further.get(appId, before, count - 1)?.id ?? null,
    newest: (wanted: WantedDatapoints): DatapointRow[] => newest.all(wanted),
    /**
     * Removes up to `limit` of an app's oldest points, up to the last one that was written before a time, and no more than it
     * takes to have so many bytes less. @returns how many went
     */
    removeOldest: database.transaction(
      (appId: string, limit: number, which: Partial<Oldest> = {}): number => {
        const { before = Number.MAX_SAFE_INTEGER, bytes = Number.MAX_SAFE_INTEGER } = which;
        // Most often nothing is old, and to add up bytes would be all for nothing.
        if (!((first.get(appId)?.at ?? before) < before)) return 0;
        const last = oldest.get({ appId, limit, before, bytes });
        if (last === undefined) return 0;
        addBytes.run(appId, -last.total);
        return removeUpTo.run(appId, last.id).changes;
      },
    ),
    /** Forgets an app that has no points any more. */
    removeApp: (appId: string): void => {
      removeApp.run(appId);
    },
    /** What each app's points take, in bytes. */
    sizes: (): { app_id: string; bytes: number }[] => apps.all(),
  };
}
export type DatapointQueries = ReturnType<typeof datapointQueries>;
