// Rows of the tables `minutes` and `hours`: totals of an app in each minute and hour.
import type { Database } from 'better-sqlite3';
import { COPIES_MIGRATION } from './copies.ts';

/** One entry for each schema version of `metrics.sqlite`, in order. Never change a released one: add the next. */
export const METRICS_MIGRATIONS = [
  `
  CREATE TABLE apps (
    app_id TEXT PRIMARY KEY,
    written_at INTEGER NOT NULL             -- when something of it was written last; times here are ms since 1970
  ) STRICT, WITHOUT ROWID;
  ${['minutes', 'hours']
    .map(
      (table) => `
  CREATE TABLE ${table} (
    app_id TEXT NOT NULL,
    at INTEGER NOT NULL,                    -- when it begins
    requests INTEGER NOT NULL,
    errors INTEGER NOT NULL,                -- answered with 5xx
    client_errors INTEGER NOT NULL,         -- answered with 4xx
    rate_limited INTEGER NOT NULL,          -- of these, with 429
    shed INTEGER NOT NULL,                  -- of the errors: refused for want of room
    duration_ms REAL NOT NULL,              -- of all requests that latency counts
    bytes_in INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL,
    cpu_ms INTEGER NOT NULL,
    memory_bytes INTEGER NOT NULL,          -- the most at any time
    wakes INTEGER NOT NULL,
    held_ms INTEGER NOT NULL,
    latency BLOB NOT NULL,                  -- a histogram
    PRIMARY KEY (app_id, at)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX ${table}_by_time ON ${table} (at);`,
    )
    .join('\n')}
  `,
  COPIES_MIGRATION,
];

/** A row without its app and time. */
export interface BucketRow {
  requests: number;
  errors: number;
  client_errors: number;
  rate_limited: number;
  shed: number;
  duration_ms: number;
  bytes_in: number;
  bytes_out: number;
  cpu_ms: number;
  memory_bytes: number;
  wakes: number;
  held_ms: number;
  latency: Uint8Array;
}

/** A row with its app and time. */
export interface CopiedBucket extends BucketRow {
  app_id: string;
  at: number;
}

export type BucketTable = 'minutes' | 'hours';

const COLUMNS = [
  'requests',
  'errors',
  'client_errors',
  'rate_limited',
  'shed',
  'duration_ms',
  'bytes_in',
  'bytes_out',
  'cpu_ms',
  'memory_bytes',
  'wakes',
  'held_ms',
  'latency',
] as const satisfies (keyof BucketRow)[];

export function bucketQueries(database: Database, table: BucketTable) {
  const columns = COLUMNS.join(', ');
  const find = database.prepare<[string, number], BucketRow>(
    `SELECT ${columns} FROM ${table} WHERE app_id = ? AND at = ?`,
  );
  const save = database.prepare<BucketRow & { app: string; at: number }>(
    `INSERT OR REPLACE INTO ${table} (app_id, at, ${columns})
     VALUES (@app, @at, ${COLUMNS.map((name) => `@${name}`).join(', ')})`,
  );
  const range = database.prepare<[string, number, number], BucketRow & { at: number }>(
    `SELECT at, ${columns} FROM ${table} WHERE app_id = ? AND at >= ? AND at < ? ORDER BY at`,
  );
  const after = database.prepare<[number, string, number, number], CopiedBucket>(
    `SELECT app_id, at, ${columns} FROM ${table} WHERE (at, app_id) > (?, ?) AND at < ? ORDER BY at, app_id LIMIT ?`,
  );
  const oldest = database.prepare<[], { at: number | null }>(`SELECT min(at) AS at FROM ${table}`);
  const times = database.prepare<[number, string], { at: number }>(
    `SELECT DISTINCT at - at % CAST(? AS INTEGER) AS at FROM ${table} WHERE app_id = ?`,
  );
  const deleteBefore = database.prepare<[number, number]>(
    `DELETE FROM ${table} WHERE (app_id, at) IN (SELECT app_id, at FROM ${table} WHERE at < ? ORDER BY at LIMIT ?)`,
  );
  const deleteOf = database.prepare<[string, number]>(
    `DELETE FROM ${table} WHERE (app_id, at) IN (SELECT app_id, at FROM ${table} WHERE app_id = ? LIMIT ?)`,
  );

  return {
    find: (appId: string, at: number): BucketRow | undefined => find.get(appId, at),
    /** Adds or replaces a row. */
    save: (appId: string, at: number, row: BucketRow): void => {
      save.run({ app: appId, at, ...row });
    },
    /** Returns rows that begin at or after `from`, and before `to`. */
    range: (appId: string, from: number, to: number): (BucketRow & { at: number })[] =>
      range.all(appId, from, to),
    /** Returns up to `limit` rows of all apps, sorted by time and app id: those after (`at`, `app_id`) and before `to`. */
    after: ({ at, app_id }: Pick<CopiedBucket, 'at' | 'app_id'>, to: number, limit: number): CopiedBucket[] =>
      after.all(at, app_id, to, limit),
    /** Returns when the oldest row begins; null without rows. */
    oldest: (): number | null => oldest.get()!.at,
    /** Returns the start of each period of `lengthMs` in which an app has rows. */
    periods: (appId: string, lengthMs: number): number[] => times.all(lengthMs, appId).map(({ at }) => at),
    /** Removes up to `limit` rows that begin before `at`, the oldest first. @returns how many */
    deleteBefore: (at: number, limit: number): number => deleteBefore.run(at, limit).changes,
    /** Removes up to `limit` rows of an app. @returns how many */
    deleteOf: (appId: string, limit: number): number => deleteOf.run(appId, limit).changes,
  };
}
export type BucketQueries = ReturnType<typeof bucketQueries>;

/** Queries over `apps` of `metrics.sqlite`: when each app's rows were last written. */
export function writtenQueries(database: Database) {
  const find = database.prepare<[string], { written_at: number }>(
    'SELECT written_at FROM apps WHERE app_id = ?',
  );
  const save = database.prepare<[string, number]>(
    'INSERT OR REPLACE INTO apps (app_id, written_at) VALUES (?, ?)',
  );
  const remove = database.prepare<[string]>('DELETE FROM apps WHERE app_id = ?');
  const all = database.prepare<[], { app_id: string }>('SELECT app_id FROM apps');
  return {
    /** Returns the ids of all apps that were ever written, except deleted ones. */
    apps: (): string[] => all.all().map(({ app_id }) => app_id),
    /** Returns when an app's rows were last written, in ms since 1970; null if never. */
    at: (appId: string): number | null => find.get(appId)?.written_at ?? null,
    save: (appId: string, at: number): void => {
      save.run(appId, at);
    },
    delete: (appId: string): void => {
      remove.run(appId);
    },
  };
}
