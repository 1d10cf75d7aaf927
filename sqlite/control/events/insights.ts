// Insights: one value each, by title.
import { LIVE_APP, listOfApp, readOfApp } from '../apps/apps.ts';
import type { Page, Position } from '../page.ts';
import type { Reader } from '../reads.ts';

export interface InsightRow {
  title: string;
  value: number | string;
  icon: string | null;
  created_at: string;
  updated_at: string;
}

const COLUMNS = 'title, value, icon, created_at, updated_at';

/**
 * Sets an insight, or adds to it. Without an icon, the old one stays.
 * Above `limit` insights of the app, it removes those set longest ago.
 * @returns null for an unknown app, undefined when the stored value is not a number, or the sum would not be finite
 */
export async function setInsight(
  db: D1Database,
  appId: string,
  insight: { title: string; value: number | string; add: boolean; icon: string | null; at: string },
  limit: number,
): Promise<InsightRow | null | undefined> {
  const value = insight.add ? 'value + excluded.value' : 'excluded.value';
  const condition = insight.add
    ? `WHERE typeof(value) IN ('integer', 'real') AND abs(value + excluded.value) <= ${Number.MAX_VALUE}`
    : '';
  const statement = db
    .prepare(
      `INSERT INTO insights (app_id, title, value, icon, created_at, updated_at, seq)
       SELECT ?1, ?2, ?3, ?4, ?5, ?5, (SELECT coalesce(max(seq), 0) + 1 FROM insights WHERE app_id = ?1)
       WHERE ${LIVE_APP}
       ON CONFLICT (app_id, title) DO UPDATE SET
         value = ${value}, icon = coalesce(excluded.icon, icon), updated_at = excluded.updated_at,
         seq = excluded.seq ${condition}
       RETURNING ${COLUMNS}`,
    )
    .bind(appId, insight.title, insight.value, insight.icon, insight.at);
  const pushOut = db
    .prepare(
      `DELETE FROM insights WHERE app_id = ?1 AND title IN (
         SELECT title FROM insights WHERE app_id = ?1 ORDER BY seq DESC LIMIT -1 OFFSET ?2)`,
    )
    .bind(appId, limit);
  const rows = await readOfApp<InsightRow>(db, appId, statement, pushOut);
  return rows === null ? null : rows[0];
}

/** Returns insights by title; null for an unknown app. */
export function listInsights(db: Reader, appId: string, page: Position): Promise<Page<InsightRow> | null> {
  const select = { columns: COLUMNS, from: 'insights', by: 'title' } as const;
  return listOfApp(db, appId, select, page);
}
