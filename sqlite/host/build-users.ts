// Rows of the host's `build_users` table: which user each app's builds run as. Its process has the same number plus `count`.
import { randomInt } from 'node:crypto';
import type { Database } from 'better-sqlite3';

/**
 * User ids that builds get, from `first` on. Taken at random, so that two hosts on one machine do not share them;
 * kept, so that an app's cache stays its own.
 */
export const BUILD_UIDS = { first: 200_000, count: 16_000_000 };

/** Typed queries over the `build_users` table. */
export function buildUserQueries(database: Database) {
  const find = database.prepare<[string], { uid: number }>('SELECT uid FROM build_users WHERE app_id = ?');
  const add = database.prepare<[string, number]>(
    'INSERT OR IGNORE INTO build_users (app_id, uid) VALUES (?, ?)',
  );
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
    /** Every user id given so far. */
    all: (): number[] => all.all().map(({ uid }) => uid),
  };
}
