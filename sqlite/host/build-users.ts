// Rows of the host's `build_users` table: which user each app's builds run as. Its process has the same number plus `count`.
import { randomInt } from 'node:crypto';
import type { Database } from 'better-sqlite3';

/**
 * User ids that builds get, from `first` on. Taken at random, so that two hosts on one machine do not share them;
 * kept, so that an app's cache stays its own.
 */
export const BUILD_UIDS = { first: 200_000, count: 16_000_000 };

/** Typed queries over the `build_users` table, and where it is true. */
export function buildUserQueries(database: Database) {
  const find = database.prepare<[string], { uid: number }>('SELECT uid FROM build_users WHERE app_id = ?');
  const add = database.prepare<[string, number]>(
    'INSERT OR IGNORE INTO build_users (app_id, uid) VALUES (?, ?)',
  );
  const place = database.prepare<[], { value: string }>("SELECT value FROM meta WHERE name = 'place'");
  const takePlace = database.prepare<[string]>("INSERT OR REPLACE INTO meta VALUES ('place', ?)");
  const forget = database.prepare<[]>('DELETE FROM build_users');
  const all = database.prepare<[], { uid: number }>('SELECT uid FROM build_users');

  return {
    /** The user id of an app's builds, its own for ever. */
    uid: (appId: string): number => {
      for (;;) {
        const kept = find.get(appId);
        if (kept) return kept.uid;
        add.run(appId, BUILD_UIDS.first + randomInt(BUILD_UIDS.count));
      }
    },
    /** Where the database lay when the users were given: a name of its directory on this machine. `null`: not known yet. */
    place: (): string | null => place.get()?.value ?? null,
    /** Records where the database lies. When it lay elsewhere before, every app gets new users. */
    takePlace: database.transaction((now: string): void => {
      const before = place.get()?.value;
      if (before === now) return;
      if (before !== undefined) forget.run();
      takePlace.run(now);
    }),
    /** Every user id given so far. */
    all: (): number[] => all.all().map(({ uid }) => uid),
  };
}
