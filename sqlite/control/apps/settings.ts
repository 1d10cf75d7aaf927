// Reads an app's build variables, the overrides of its Worker's variables, and its maintenance page.
import type { Page, Position } from '../page.ts';
import type { Reader } from '../reads.ts';
import { listOfApp, readOfApp } from './apps.ts';

export interface EnvRow {
  name: string;
  value: string;
  updated_at: string;
}

/** Returns the variables of an app's builds, by name; null for an unknown app. */
export function listEnv(db: Reader, appId: string, page: Position): Promise<Page<EnvRow> | null> {
  const select = { columns: 'name, value, updated_at', from: 'env', by: 'name' } as const;
  return listOfApp(db, appId, select, page);
}

/** Returns the number of an app's build variables, without the one of this name. */
export async function countOtherEnv(db: D1Database, appId: string, name: string): Promise<number> {
  const counted = await db
    .prepare('SELECT count(*) AS count FROM env WHERE app_id = ? AND name <> ?')
    .bind(appId, name)
    .first<{ count: number }>();
  return counted!.count;
}

/** An override of a variable of the Worker. `value`: JSON. */
export interface VarRow {
  name: string;
  value: string;
  updated_at: string;
}

/** Returns all overrides of an app, by name; null for an unknown app. */
export function listVars(db: Reader, appId: string): Promise<VarRow[] | null> {
  const statement = db.prepare('SELECT name, value, updated_at FROM vars WHERE app_id = ? ORDER BY name');
  return readOfApp<VarRow>(db, appId, statement.bind(appId));
}

/** The maintenance page of an app. */
export interface MaintenanceRow {
  maintenance: 0 | 1;
  maintenance_html: string | null;
}

/** Returns an app's maintenance page; null for an unknown app. */
export async function readMaintenance(db: Reader, appId: string): Promise<MaintenanceRow | null> {
  const statement = db.prepare('SELECT maintenance, maintenance_html FROM apps WHERE id = ?').bind(appId);
  const rows = await readOfApp<MaintenanceRow>(db, appId, statement);
  return rows && rows[0]!;
}

/** Returns the overrides of variables in an app's previews, as a JSON object; null for an unknown app. */
export async function readPreviewVars(db: Reader, appId: string): Promise<string | null> {
  const statement = db.prepare('SELECT previews_vars FROM apps WHERE id = ?').bind(appId);
  const rows = await readOfApp<{ previews_vars: string }>(db, appId, statement);
  return rows && rows[0]!.previews_vars;
}
