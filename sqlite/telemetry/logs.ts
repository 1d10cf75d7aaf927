// Rows of the logs of apps. Rows of one app are stored together, in the order of their ids.
import type { Database } from 'better-sqlite3';

/** One entry for each schema version of `logs.sqlite`, in order. Never change a released one: add the next. */
export const LOGS_MIGRATIONS = [
  `
  CREATE TABLE apps (
    number INTEGER PRIMARY KEY,
    app_id TEXT NOT NULL UNIQUE,
    bytes INTEGER NOT NULL                  -- of all its lines, as ROW_BYTES counts them
  ) STRICT;
  CREATE TABLE lines (
    app INTEGER NOT NULL,                   -- its number
    id INTEGER NOT NULL,                    -- rises with each line; a hundredth of it is about when it came, in ms since 1970
    at INTEGER NOT NULL,                    -- when it was said; ms since 1970
    level INTEGER NOT NULL,
    source INTEGER NOT NULL,
    text TEXT NOT NULL,
    fields TEXT,                            -- JSON
    trace_id TEXT,
    release TEXT,
    PRIMARY KEY (app, id)
  ) STRICT, WITHOUT ROWID;
  `,
];

/** Approximate bytes of a row without its `text` and `fields`. */
const ROW_BYTES = 60;

/** A line. The caller defines the numbers of `level` and `source`. */
export interface LogRow {
  id: number;
  at: number;
  level: number;
  source: number;
  text: string;
  fields: string | null;
  trace_id: string | null;
  release: string | null;
}

/** A filter for lines. Times are ms since 1970; an undefined field matches all. */
export interface LogFilter {
  /** The minimum level. */
  level?: number | undefined;
  since?: number | undefined;
  until?: number | undefined;
  traceId?: string | undefined;
}

export interface AppBytes {
  app_id: string;
  bytes: number;
}

/** Limits the removal of the oldest lines. */
interface Oldest {
  /** Upper bound of ids, exclusive. */
  before: number;
  /** Stops once this many bytes are freed. */
  bytes: number;
}

export function logQueries(database: Database) {
  const findApp = database.prepare<[string], { number: number; bytes: number }>(
    'SELECT number, bytes FROM apps WHERE app_id = ?',
  );
  const addApp = database.prepare<[string]>('INSERT INTO apps (app_id, bytes) VALUES (?, 0)');
  const removeApp = database.prepare<[number]>('DELETE FROM apps WHERE number = ?');
  const addBytes = database.prepare<[number, number]>('UPDATE apps SET bytes = bytes + ? WHERE number = ?');
  const allApps = database.prepare<[], AppBytes>('SELECT app_id, bytes FROM apps');
  const lastId = database.prepare<[], { id: number | null }>(
    'SELECT max((SELECT max(id) FROM lines WHERE app = number)) AS id FROM apps',
  );
  const add = database.prepare<LogRow & { app: number }>(
    `INSERT INTO lines (app, id, at, level, source, text, fields, trace_id, release)
     VALUES (@app, @id, @at, @level, @source, @text, @fields, @trace_id, @release)`,
  );
  const columns = 'id, at, level, source, text, fields, trace_id, release';
  const between = database.prepare<
    { app: number; from: number; before: number } & {
      [Name in keyof Required<LogFilter>]: LogFilter[Name] | null;
    },
    LogRow
  >(
    `SELECT ${columns} FROM lines WHERE app = @app AND id >= @from AND id < @before
       AND (@level IS NULL OR level >= @level) AND (@since IS NULL OR at >= @since)
       AND (@until IS NULL OR at < @until) AND (@traceId IS NULL OR trace_id = @traceId)
     ORDER BY id DESC`,
  );
  const further = database.prepare<[number, number, number], { id: number }>(
    'SELECT id FROM lines WHERE app = ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?',
  );
  const after = database.prepare<[number, number, number], LogRow>(
    `SELECT ${columns} FROM lines WHERE app = ? AND id > ? ORDER BY id LIMIT ?`,
  );
  const ends = database.prepare<[number, number], { first: number | null; last: number | null }>(
    'SELECT (SELECT min(id) FROM lines WHERE app = ?) AS first, (SELECT max(id) FROM lines WHERE app = ?) AS last',
  );
  const oldest = database.prepare<
    { app: number; before: number; limit: number; bytes: number },
    { id: number | null; bytes: number | null }
  >(
    `SELECT max(id) AS id, sum(size) AS bytes FROM (
       SELECT id, size, sum(size) OVER (ORDER BY id) AS total FROM (
         SELECT id, octet_length(text) + coalesce(octet_length(fields), 0) + ${ROW_BYTES} AS size
         FROM lines WHERE app = @app AND id < @before ORDER BY id LIMIT @limit))
     WHERE total - size < @bytes`,
  );
  const removeUpTo = database.prepare<[number, number]>('DELETE FROM lines WHERE app = ? AND id <= ?');

  const append = database.transaction((appId: string, rows: readonly LogRow[]): void => {
    const app = findApp.get(appId)?.number ?? Number(addApp.run(appId).lastInsertRowid);
    let bytes = 0;
    for (const row of rows) {
      add.run({ app, ...row });
      bytes += Buffer.byteLength(row.text) + ROW_BYTES;
      if (row.fields !== null) bytes += Buffer.byteLength(row.fields);
    }
    addBytes.run(bytes, app);
  });
  const removeOldest = database.transaction((appId: string, limit: number, most: Partial<Oldest>): number => {
    const app = findApp.get(appId);
    if (app === undefined) return 0;
    const { before = Number.MAX_SAFE_INTEGER, bytes = Number.MAX_SAFE_INTEGER } = most;
    const found = oldest.get({ app: app.number, before, limit, bytes })!;
    if (found.id === null) return 0;
    const { changes } = removeUpTo.run(app.number, found.id);
    addBytes.run(-found.bytes!, app.number);
    return changes;
  });

  return {
    /** Adds lines of an app. Their ids must be higher than those of its other lines. */
    append: (appId: string, rows: readonly LogRow[]): void => append(appId, rows),
    transaction: (work: () => void): void => database.transaction(work)(),
    /** Returns the highest id of all apps' lines; 0 without lines. */
    lastId: (): number => lastId.get()!.id ?? 0,
    /**
     * Returns an app's lines that match, with ids from `from` to below `beforeId`; newest first. Read them all before you
     * run another query.
     */
    between: (appId: string, from: number, beforeId: number, filter: LogFilter): Iterable<LogRow> => {
      const app = findApp.get(appId);
      if (app === undefined) return [];
      const { level = null, since = null, until = null, traceId = null } = filter;
      return between.iterate({ app: app.number, from, before: beforeId, level, since, until, traceId });
    },
    /** Returns the id of an app's line that is `count` lines before an id; null when there are fewer. */
    further: (appId: string, beforeId: number, count: number): number | null => {
      const app = findApp.get(appId);
      return (app && further.get(app.number, beforeId, count - 1)?.id) ?? null;
    },
    /** Returns up to `limit` lines of an app with a higher id, oldest first. */
    after: (appId: string, id: number, limit: number): LogRow[] => {
      const app = findApp.get(appId);
      return app === undefined ? [] : after.all(app.number, id, limit);
    },
    /** Returns the ids of the first and the last line of an app; null when it has none. */
    ends: (appId: string): { first: number; last: number } | null => {
      const app = findApp.get(appId);
      const found = app && ends.get(app.number, app.number);
      return found?.first == null ? null : { first: found.first, last: found.last! };
    },
    /** Returns the bytes of each app's lines. */
    sizes: (): AppBytes[] => allApps.all(),
    /** Removes up to `limit` of an app's oldest lines, within `most`. @returns the number */
    removeOldest: (appId: string, limit: number, most: Partial<Oldest> = {}): number =>
      removeOldest(appId, limit, most),
    /** Removes the row of an app. Call it only when the app has no lines left. */
    removeApp: (appId: string): void => {
      const app = findApp.get(appId);
      if (app !== undefined) removeApp.run(app.number);
    },
  };
}
export type LogQueries = ReturnType<typeof logQueries>;
