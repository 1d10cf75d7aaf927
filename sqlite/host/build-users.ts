// Rows of the host's `build_users` table: the user id of each app's builds. The user id of the app's process is higher by
// `BUILD_UIDS.count`.
import { randomInt } from 'node:crypto';
import type { Database } from 'better-sqlite3';

/**
 * Range of user ids for builds. Ids are random, so that two hosts on one machine do not share them. They are stored, so
 * that no other app can read an app's cache.
 */
export const BUILD_UIDS = { first: 200_000, count: 16_000_000 };

export function buildUserQueries(database: Database) {
  const find = database.prepare<[string], { uid: number }>('SELECT uid FROM build_users WHERE app_id = ?');
  const add = database.prepare<[string, number]>(
    'INSERT OR IGNORE INTO build_users (app_id, uid) VALUES (?, ?)',
  );
  const place = database.prepare<[], { value: string }>("SELECT value FROM meta WHERE name = 'place'");
  const recordPlace = database.prepare<[string]>("INSERT OR REPLACE INTO meta VALUES ('place', ?)");
  const forget = database.prepare<[]>('DELETE FROM build_users');
  const all = database.prepare<[], { uid: number }>('SELECT uid FROM build_users');

  return {
    /**
     * Returns the user id of an app's builds, which is never reused. It changes only when the database moves
     * (`recordPlace`).
     */
    uid: (appId: string): number => {
      for (;;) {
        const kept = find.get(appId);
        if (kept) return kept.uid;
        add.run(appId, BUILD_UIDS.first + randomInt(BUILD_UIDS.count));
      }
    },
    /** Returns the place of the data directory (`Layout.place`) for which the ids were given; null: unknown. */
    place: (): string | null => place.get()?.value ?? null,
    /**
     * Records the place of the data directory. If another place was recorded, all ids are deleted: every app gets a new one.
     */
    recordPlace: database.transaction((now: string): void => {
      const before = place.get()?.value;
      if (before === now) return;
      if (before !== undefined) forget.run();
      recordPlace.run(now);
    }),
    /** Returns every user id given so far. */
    all: (): number[] => all.all().map(({ uid }) => uid),
  };
}
