// Reads the TCP ports of apps.
import { type Page, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';
import { readOfApp } from './apps.ts';

export interface TcpPortRow {
  port: number;
  app_id: string;
  created_at: string;
}

/** Returns the ports of an app in order; null for an unknown app. */
export async function listTcpPorts(
  db: Reader,
  appId: string,
  { after, limit }: { after: string; limit: number },
): Promise<Page<TcpPortRow> | null> {
  const statement = db
    .prepare(
      'SELECT port, app_id, created_at FROM tcp_ports WHERE app_id = ? AND port > ? ORDER BY port LIMIT ?',
    )
    .bind(appId, Number(after), limit + 1);
  const rows = await readOfApp<TcpPortRow>(db, appId, statement);
  return rows && pageOf(rows, limit, ({ port }) => [String(port)]);
}

/** Returns the app that has a port; null when none has it. */
export function findTcpPort(db: D1Database, port: number): Promise<{ app_id: string } | null> {
  return db.prepare('SELECT app_id FROM tcp_ports WHERE port = ?').bind(port).first();
}
