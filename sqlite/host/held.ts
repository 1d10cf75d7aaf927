// Rows of the host's `held` table: held apps, whose process was ended because of their disk usage.
import type { Database } from 'better-sqlite3';

/**
 * Why an app is held. `limit`: its storage is above its limit. `disk`: the disk was almost full, and this app wrote most.
 */
export type HeldCause = 'limit' | 'disk';

export interface HeldRow {
  cause: HeldCause;
  /** For the owner: what happened, and what to do. */
  why: string;
}

export function heldQueries(database: Database) {
  const all = database.prepare<[], HeldRow & { app_id: string }>('SELECT app_id, cause, why FROM held');
  const has = database.prepare<[string]>('SELECT 1 FROM held WHERE app_id = ?');
  const hold = database.prepare<[string, HeldCause, string]>(
    `INSERT INTO held (app_id, cause, why) VALUES (?, ?, ?)
     ON CONFLICT (app_id) DO UPDATE SET cause = excluded.cause, why = excluded.why`,
  );
  const free = database.prepare<[string]>('DELETE FROM held WHERE app_id = ?');

  return {
    /** Returns every row, by app. */
    all: (): Map<string, HeldRow> =>
      new Map(all.all().map(({ app_id, cause, why }) => [app_id, { cause, why }])),
    has: (appId: string): boolean => has.get(appId) !== undefined,
    set: (appId: string, { cause, why }: HeldRow): void => {
      hold.run(appId, cause, why);
    },
    delete: (appId: string): void => {
      free.run(appId);
    },
  };
}
export type HeldQueries = ReturnType<typeof heldQueries>;
