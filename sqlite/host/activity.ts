// Rows of the host's `activity` table: when an app was last used, and when it has work to do without a process.
import type { Database } from 'better-sqlite3';

/** One app's row. Times are ms since 1970. */
export interface ActivityRow {
  /** The start of the last minute with a request; null before the first request. */
  lastRequestAt: number | null;
  /** Whether its process was ended because it was idle. Only then `dueAt` is valid. */
  resting: boolean;
  /** When it has work to do; null: never. */
  dueAt: number | null;
}

interface Stored {
  app_id: string;
  last_request_at: number | null;
  resting: 0 | 1;
  due_at: number | null;
}

export function activityQueries(database: Database) {
  const all = database.prepare<[], Stored>('SELECT app_id, last_request_at, resting, due_at FROM activity');
  const rest = database.prepare<[string, 0 | 1, number | null]>(
    `INSERT INTO activity (app_id, resting, due_at) VALUES (?, ?, ?)
     ON CONFLICT (app_id) DO UPDATE SET resting = excluded.resting, due_at = excluded.due_at`,
  );
  const requested = database.prepare<[string, number]>(
    `INSERT INTO activity (app_id, last_request_at) VALUES (?, ?)
     ON CONFLICT (app_id) DO UPDATE SET last_request_at = excluded.last_request_at`,
  );
  const forget = database.prepare<[string]>('DELETE FROM activity WHERE app_id = ?');

  return {
    /** Returns every row, by app. */
    all: (): Map<string, ActivityRow> =>
      new Map(
        all
          .all()
          .map((row) => [
            row.app_id,
            { lastRequestAt: row.last_request_at, resting: row.resting === 1, dueAt: row.due_at },
          ]),
      ),
    /** Records that an app needs no process before `dueAt`; with `state` null, that it needs one again. */
    setRest: (appId: string, state: { dueAt: number | null } | null): void => {
      rest.run(appId, state === null ? 0 : 1, state?.dueAt ?? null);
    },
    setLastRequest: (appId: string, at: number): void => {
      requested.run(appId, at);
    },
    delete: (appId: string): void => {
      forget.run(appId);
    },
  };
}
