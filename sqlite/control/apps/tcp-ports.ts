// Reads the TCP ports of apps.
import type { Page, Position } from '../page.ts';
import type { Reader } from '../reads.ts';
import { listOfApp } from './apps.ts';

export interface TcpPortRow {
  port: number;
  app_id: string;
  created_at: string;
}

/** Returns the ports of an app in order; null for an unknown app. */
export function listTcpPorts(db: Reader, appId: string, page: Position): Promise<Page<TcpPortRow> | null> {
  const select = { columns: 'port, app_id, created_at', from: 'tcp_ports', by: 'port' } as const;
  return listOfApp(db, appId, select, { ...page, after: Number(page.after) });
}

/** Returns the app that has a port; null when none has it. */
export function findTcpPort(db: D1Database, port: number): Promise<{ app_id: string } | null> {
  return db.prepare('SELECT app_id FROM tcp_ports WHERE port = ?').bind(port).first();
}
