// Rows of `breakdowns`: an app's requests by device, path, referrer and country, per hour and per day.
import type { Database } from 'better-sqlite3';

/** One entry for each schema version of `breakdowns.sqlite`, in order. Never change a released one: add the next. */
export const BREAKDOWN_MIGRATIONS = [
  `
  CREATE TABLE breakdowns (
    app_id TEXT NOT NULL,
    kind TEXT NOT NULL,                     -- 'devices', 'paths' or 'refs'
    length_ms INTEGER NOT NULL,             -- of an hour or a day
    at INTEGER NOT NULL,                    -- when it begins, in ms since 1970
    key TEXT NOT NULL,                      -- '' stands for all that had no room
    requests INTEGER NOT NULL,
    errors INTEGER NOT NULL,                -- answered with 5xx
    PRIMARY KEY (app_id, kind, length_ms, at, key)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX breakdowns_by_time ON breakdowns (length_ms, at);
  `,
];

export type BreakdownKind = 'devices' | 'paths' | 'refs' | 'countries';

/** Identifies counts by app, kind, and hour or day: its `length` in ms, and its start `at` in ms since 1970. */
export interface BreakdownPlace {
  app: string;
  kind: BreakdownKind;
  length: number;
  at: number;
}

export interface BreakdownRow {
  key: string;
  requests: number;
  errors: number;
}

export function breakdownQueries(database: Database) {
  const place = 'app_id = @app AND kind = @kind AND length_ms = @length AND at = @at';
  const all = database.prepare<BreakdownPlace, BreakdownRow>(
    `SELECT key, requests, errors FROM breakdowns WHERE ${place}`,
  );
  const save = database.prepare<BreakdownPlace & BreakdownRow>(
    `INSERT INTO breakdowns (app_id, kind, length_ms, at, key, requests, errors)
     VALUES (@app, @kind, @length, @at, @key, @requests, @errors)
     ON CONFLICT DO UPDATE SET requests = excluded.requests, errors = excluded.errors`,
  );
  const remove = database.prepare<BreakdownPlace & { key: string }>(
    `DELETE FROM breakdowns WHERE ${place} AND key = @key`,
  );
  const top = database.prepare<
    Omit<BreakdownPlace, 'at'> & { from: number; limit: number; offset: number },
    BreakdownRow
  >(
    `SELECT key, sum(requests) AS requests, sum(errors) AS errors FROM breakdowns
     WHERE app_id = @app AND kind = @kind AND length_ms = @length AND at >= @from
     GROUP BY key ORDER BY requests DESC, key LIMIT @limit OFFSET @offset`,
  );
  const deleteBefore = database.prepare<[number, number, number]>(
    `DELETE FROM breakdowns WHERE (app_id, kind, length_ms, at, key) IN (
       SELECT app_id, kind, length_ms, at, key FROM breakdowns WHERE length_ms = ? AND at < ? ORDER BY at LIMIT ?)`,
  );
  const deleteOf = database.prepare<[string, number]>(
    `DELETE FROM breakdowns WHERE (app_id, kind, length_ms, at, key) IN (
       SELECT app_id, kind, length_ms, at, key FROM breakdowns WHERE app_id = ? LIMIT ?)`,
  );
  const apps = database.prepare<[], { app_id: string }>('SELECT DISTINCT app_id FROM breakdowns');

  return {
    all: (where: BreakdownPlace): BreakdownRow[] => all.all(where),
    /** Adds or replaces the counts of a key. */
    save: (where: BreakdownPlace, row: BreakdownRow): void => {
      save.run({ ...where, ...row });
    },
    delete: (where: BreakdownPlace, key: string): void => {
      remove.run({ ...where, key });
    },
    /** Returns the counts of each key, summed over the periods that begin at or after `from`. Most requests first. */
    top: (
      { app, kind, length }: Omit<BreakdownPlace, 'at'>,
      from: number,
      limit: number,
      offset: number,
    ): BreakdownRow[] => top.all({ app, kind, length, from, limit, offset }),
    /** Removes up to `limit` rows of one length that begin before `at`, the oldest first. @returns how many */
    deleteBefore: (length: number, at: number, limit: number): number =>
      deleteBefore.run(length, at, limit).changes,
    /** Removes up to `limit` rows of an app. @returns how many */
    deleteOf: (app: string, limit: number): number => deleteOf.run(app, limit).changes,
    apps: (): string[] => apps.all().map(({ app_id }) => app_id),
  };
}
export type BreakdownQueries = ReturnType<typeof breakdownQueries>;
