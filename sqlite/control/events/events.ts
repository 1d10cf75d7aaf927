// Product events and their channels.
import { LIVE_APP, readOfApp } from '../apps/apps.ts';
import { type Page, type Position, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';

/** One event. `tags` is JSON. */
export interface EventRow {
  id: string;
  app_id: string;
  channel: string;
  event: string;
  description: string | null;
  icon: string | null;
  tags: string;
  user_id: string | null;
  at: string;
  created_at: string;
}

export interface ChannelRow {
  channel: string;
  count: number;
  last_at: string;
}

const COLUMNS = 'id, app_id, channel, event, description, icon, tags, user_id, at, created_at';

/** Maximum rows that one insert removes: more than one, so that an app above its limit shrinks. */
const PUSHED_OUT = 100;

/**
 * Adds an event. Above `limit` events of the app, it removes the oldest.
 * @returns whether the app exists
 */
export async function insertEvent(db: D1Database, row: EventRow, limit: number): Promise<boolean> {
  const insert = db
    .prepare(
      `INSERT INTO events (app_id, id, channel, event, description, icon, tags, user_id, at, created_at, seq, sort_at)
       SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,
         (SELECT coalesce(max(seq), 0) + 1 FROM events WHERE app_id = ?1),
         CASE WHEN ?9 <> ?10 THEN ?9 ELSE
           max(?9, coalesce((SELECT max(sort_at) FROM events WHERE app_id = ?1 AND at = created_at), '')) END
       WHERE ${LIVE_APP} RETURNING id`,
    )
    .bind(
      row.app_id,
      row.id,
      row.channel,
      row.event,
      row.description,
      row.icon,
      row.tags,
      row.user_id,
      row.at,
      row.created_at,
    );
  const pushOut = db
    .prepare(
      `DELETE FROM events WHERE rowid IN (
         SELECT rowid FROM events
         WHERE app_id = ?1 AND seq <= (SELECT max(seq) FROM events WHERE app_id = ?1) - ?2 LIMIT ?3)`,
    )
    .bind(row.app_id, limit, PUSHED_OUT);
  const [inserted] = await db.batch([insert, pushOut]);
  return inserted!.results.length > 0;
}

/**
 * Returns events, newest first.
 * @param filter.before `sort_at` and `seq` to continue from
 * @returns null for an unknown app
 */
export async function listEvents(
  db: Reader,
  appId: string,
  filter: {
    channel: string | null;
    event: string | null;
    user: string | null;
    before: [string, string] | null;
    limit: number;
  },
): Promise<Page<EventRow> | null> {
  const [at, seq] = filter.before ?? [null, null];
  // Contains only the filters in use, so that SQLite can use the index of each.
  const conditions = ['app_id = ?1'];
  if (filter.channel !== null) conditions.push('channel = ?2');
  if (filter.user !== null) conditions.push('user_id = ?3');
  if (filter.event !== null) conditions.push('event = ?4');
  if (at !== null) conditions.push('(sort_at, seq) < (?5, ?6)');
  const statement = db
    .prepare(
      `SELECT ${COLUMNS}, sort_at, seq FROM events WHERE ${conditions.join(' AND ')} ORDER BY sort_at DESC, seq DESC LIMIT ?7`,
    )
    .bind(
      appId,
      filter.channel,
      filter.user,
      filter.event,
      at,
      seq === null ? null : Number(seq),
      filter.limit + 1,
    );
  const rows = await readOfApp<EventRow & { sort_at: string; seq: number }>(db, appId, statement);
  if (rows === null) return null;
  const { rows: kept, next } = pageOf(rows, filter.limit, (row) => [row.sort_at, String(row.seq)]);
  return { rows: kept.map(({ sort_at: _, seq: __, ...row }) => row), next };
}

/** @returns null for an unknown app */
export async function listChannels(
  db: Reader,
  appId: string,
  { after, limit }: Position,
): Promise<Page<ChannelRow> | null> {
  const statement = db
    .prepare(
      `SELECT channel, count(*) AS count, max(at) AS last_at FROM events
       WHERE app_id = ? AND channel > ? GROUP BY channel ORDER BY channel LIMIT ?`,
    )
    .bind(appId, after, limit + 1);
  const rows = await readOfApp<ChannelRow>(db, appId, statement);
  return rows && pageOf(rows, limit, ({ channel }) => [channel]);
}
