// Reads the e-mail addresses of apps.
import type { Page, Position } from '../page.ts';
import type { Reader } from '../reads.ts';
import { listOfApp } from './apps.ts';

export interface MailRouteRow {
  address: string;
  app_id: string;
  created_at: string;
}

/** Returns the addresses of an app in order; null for an unknown app. */
export function listMailRoutes(
  db: Reader,
  appId: string,
  page: Position,
): Promise<Page<MailRouteRow> | null> {
  const select = { columns: 'address, app_id, created_at', from: 'mail_routes', by: 'address' } as const;
  return listOfApp(db, appId, select, page);
}

/** Returns whether an app has a domain: its own name below the base domain, or an active hostname. */
export async function hasMailDomain(
  db: D1Database,
  appId: string,
  domain: string,
  baseDomain: string,
): Promise<boolean> {
  const found = await db
    .prepare(`SELECT 1 FROM apps WHERE id = ?1 AND ${HAS_DOMAIN}`)
    .bind(appId, domain, baseDomain)
    .first();
  return found !== null;
}

/** Whether the app `?1` has the domain `?2`. `?3`: the base domain. */
export const HAS_DOMAIN = `(
  EXISTS (SELECT 1 FROM domains WHERE app_id = ?1 AND hostname = ?2 AND proved_at IS NOT NULL)
  OR EXISTS (SELECT 1 FROM apps WHERE id = ?1 AND deleted_at IS NULL AND slug || '.' || ?3 = ?2))`;
