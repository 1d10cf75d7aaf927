// Identified users of an app.
import { LIVE_APP, readOfApp } from '../apps/apps.ts';
import { type Page, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';

/** Maximum rows that one call removes: more than one, so that an app above its limit shrinks. */
const PUSHED_OUT = 100;

/** One user. `properties` is JSON. */
export interface UserRow {
  user_id: string;
  properties: string;
  created_at: string;
  updated_at: string;
}

/**
 * Merges properties into those of a user (RFC 7396: null removes).
 * Above `limits.users` of the app, it removes those identified longest ago.
 * @param limits.bytes maximum bytes of one user's properties, as JSON
 * @returns null for an unknown app, undefined when the properties would grow too large
 */
export async function mergeUser(
  db: D1Database,
  appId: string,
  user: { user_id: string; properties: string; at: string },
  limits: { users: number; bytes: number },
): Promise<UserRow | null | undefined> {
  const statement = db
    .prepare(
      `INSERT INTO users (app_id, user_id, properties, created_at, updated_at, seq)
       SELECT ?1, ?2, json_patch('{}', ?3), ?4, ?4, (SELECT coalesce(max(seq), 0) + 1 FROM users WHERE app_id = ?1)
       WHERE ${LIVE_APP}
       ON CONFLICT (app_id, user_id) DO UPDATE SET
         properties = json_patch(properties, ?3), updated_at = excluded.updated_at, seq = excluded.seq
         WHERE length(CAST(json_patch(properties, ?3) AS BLOB)) <= ?5
       RETURNING user_id, properties, created_at, updated_at`,
    )
    .bind(appId, user.user_id, user.properties, user.at, limits.bytes);
  const pushOut = db
    .prepare(
      `DELETE FROM users WHERE app_id = ?1 AND user_id IN (
         SELECT user_id FROM users WHERE app_id = ?1 ORDER BY seq DESC LIMIT ?2 OFFSET ?3)`,
    )
    .bind(appId, PUSHED_OUT, limits.users);
  const rows = await readOfApp<UserRow>(db, appId, statement, pushOut);
  return rows === null ? null : rows[0];
}

/**
 * Returns users, the most recently identified first.
 * @param page.before the `seq` to continue from
 * @returns null for an unknown app
 */
export async function listUsers(
  db: Reader,
  appId: string,
  { before, limit }: { before: number | null; limit: number },
): Promise<Page<UserRow> | null> {
  const statement = db
    .prepare(
      `SELECT user_id, properties, created_at, updated_at, seq FROM users
       WHERE app_id = ?1 AND (?2 IS NULL OR seq < ?2) ORDER BY seq DESC LIMIT ?3`,
    )
    .bind(appId, before, limit + 1);
  const rows = await readOfApp<UserRow & { seq: number }>(db, appId, statement);
  return rows && pageOf(rows, limit, ({ seq }) => [String(seq)]);
}

/** @returns null for an unknown app, undefined for an unknown user of it */
export async function findUser(
  db: Reader,
  appId: string,
  userId: string,
): Promise<UserRow | null | undefined> {
  const statement = db
    .prepare('SELECT user_id, properties, created_at, updated_at FROM users WHERE app_id = ? AND user_id = ?')
    .bind(appId, userId);
  const rows = await readOfApp<UserRow>(db, appId, statement);
  return rows === null ? null : rows[0];
}
