// Rows of `cron_runs`: the last run of each cron of each app.
import type { Database } from 'better-sqlite3';

/** One entry for each schema version of `crons.sqlite`, in order. Never change a released one: add the next. */
export const CRON_MIGRATIONS = [
  `
  CREATE TABLE cron_runs (
    app_id TEXT NOT NULL,
    cron TEXT NOT NULL,                     -- the expression
    "trigger" TEXT NOT NULL,                -- 'schedule' or 'manual'
    started_at INTEGER NOT NULL,            -- in ms since 1970
    duration_ms INTEGER NOT NULL,
    outcome TEXT NOT NULL,                  -- 'ok' or 'failed'
    error TEXT,
    trace_id TEXT,
    PRIMARY KEY (app_id, cron)
  ) STRICT, WITHOUT ROWID;
  `,
];

export interface CronRunRow {
  app_id: string;
  cron: string;
  trigger: 'schedule' | 'manual';
  started_at: number;
  duration_ms: number;
  outcome: 'ok' | 'failed';
  error: string | null;
  trace_id: string | null;
}

export function cronRunQueries(database: Database) {
  const put = database.prepare<CronRunRow>(
    `INSERT OR REPLACE INTO cron_runs (app_id, cron, "trigger", started_at, duration_ms, outcome, error, trace_id)
     VALUES (@app_id, @cron, @trigger, @started_at, @duration_ms, @outcome, @error, @trace_id)`,
  );
  const of = database.prepare<[string], CronRunRow>('SELECT * FROM cron_runs WHERE app_id = ?');
  const trim = database.prepare<[string, string, number]>(
    `DELETE FROM cron_runs WHERE app_id = ? AND cron IN (
       SELECT cron FROM cron_runs WHERE app_id = ? ORDER BY started_at DESC LIMIT -1 OFFSET ?)`,
  );
  const deleteOf = database.prepare<[string, string, number]>(
    'DELETE FROM cron_runs WHERE app_id = ? AND cron IN (SELECT cron FROM cron_runs WHERE app_id = ? LIMIT ?)',
  );
  const apps = database.prepare<[], { app_id: string }>('SELECT DISTINCT app_id FROM cron_runs');

  return {
    transaction: (work: () => void): void => database.transaction(work)(),
    put: (row: CronRunRow): void => {
      put.run(row);
    },
    of: (appId: string): CronRunRow[] => of.all(appId),
    /** Keeps the `count` crons of an app that ran most recently, and removes the others. @returns how many it removed */
    trim: (appId: string, count: number): number => trim.run(appId, appId, count).changes,
    /** Removes up to `limit` rows of an app. @returns how many */
    deleteOf: (appId: string, limit: number): number => deleteOf.run(appId, appId, limit).changes,
    apps: (): string[] => apps.all().map(({ app_id }) => app_id),
  };
}
export type CronRunQueries = ReturnType<typeof cronRunQueries>;
