// Rows of `datapoints`, which apps write through Analytics Engine bindings.
import type { Database } from 'better-sqlite3';

/** One entry for each schema version of `datapoints.sqlite`, in order. Never change a released one: add the next. */
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

/** A filter for points. `null` in a field matches all. */
export interface WantedDatapoints {
  appId: string;
  dataset: string | null;
  index: string | null;
  /** In ms since 1970. */
  since: number;
  /** Upper bound of ids, exclusive. */
  before: number;
  /** Lower bound of ids, inclusive. */
  from: number;
  limit: number;
}

/** Limits the removal of the oldest points. */
interface Oldest {
  /** Removal ends at the last point from before this time, in ms since 1970. */
  before: number;
  /** Stops once this many bytes are freed. */
  bytes: number;
}

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
  // After the clock was set back, times do not rise with ids. So this finds the highest id that matches, and all rows up to
  // that id are removed.
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
    /** Returns the id of an app's point that is `count` points before an id; null when there are fewer. */
    further: (appId: string, before: number, count: number): number | null =>
      further.get(appId, before, count - 1)?.id ?? null,
    newest: (wanted: WantedDatapoints): DatapointRow[] => newest.all(wanted),
    /**
     * Removes up to `limit` of an app's points by rising ids, up to the last one from before `before`. Stops when
     * `bytes` are freed. Removes nothing if the first point is not from before `before`. @returns how many
     */
    removeOldest: database.transaction(
      (appId: string, limit: number, which: Partial<Oldest> = {}): number => {
        const { before = Number.MAX_SAFE_INTEGER, bytes = Number.MAX_SAFE_INTEGER } = which;
        // Usually no point is old enough. Then the sum of bytes is not computed.
        if (!((first.get(appId)?.at ?? before) < before)) return 0;
        const last = oldest.get({ appId, limit, before, bytes });
        if (last === undefined) return 0;
        addBytes.run(appId, -last.total);
        return removeUpTo.run(appId, last.id).changes;
      },
    ),
    /** Removes the row of an app, unless the app has points. */
    removeApp: (appId: string): void => {
      removeApp.run(appId);
    },
    /** Returns the bytes of each app's points. */
    sizes: (): { app_id: string; bytes: number }[] => apps.all(),
  };
}
export type DatapointQueries = ReturnType<typeof datapointQueries>;

export type ScannedDatapoint = Pick<DatapointRow, 'at' | 'dataset' | 'index' | 'blobs' | 'doubles'>;

/** Returns queries that read the points of some apps. They run on a thread that does not write points. */
export function datapointReads(database: Database, appIds: readonly string[]) {
  const ids = JSON.stringify(appIds);
  const OF_APPS = 'app_id IN (SELECT value FROM json_each(?))';
  const datasets = database.prepare<[string], { dataset: string }>(
    `SELECT DISTINCT dataset FROM datapoints WHERE ${OF_APPS} ORDER BY dataset`,
  );
  const one = database.prepare<[string, string], { id: number }>(
    `SELECT id FROM datapoints WHERE ${OF_APPS} AND dataset = ? LIMIT 1`,
  );
  const scan = database.prepare<[string, string], ScannedDatapoint>(
    `SELECT at, dataset, "index", blobs, doubles FROM datapoints WHERE ${OF_APPS} AND dataset = ?`,
  );
  return {
    datasets: (): string[] => datasets.all(ids).map(({ dataset }) => dataset),
    has: (dataset: string): boolean => one.get(ids, dataset) !== undefined,
    scan: (dataset: string): Iterable<ScannedDatapoint> => scan.iterate(ids, dataset),
  };
}
export type DatapointReads = ReturnType<typeof datapointReads>;
