// Reads custom hostnames, and writes the results of their DNS lookups.
import { listOfApp } from './apps/apps.ts';
import type { Page, Position } from './page.ts';
import type { Reader } from './reads.ts';

export interface DomainRow {
  hostname: string;
  app_id: string;
  created_at: string;
  /** Null until DNS proves the hostname. Until then it is not served. */
  proved_at: string | null;
  /** Time of the last lookup; null before the first. */
  checked_at: string | null;
  /** Why the last lookup did not prove the hostname; null when it did. */
  reason: string | null;
}

/** A hostname with the slug of its app. */
export type DomainOfApp = DomainRow & { slug: string };

const COLUMNS =
  'domains.hostname, domains.app_id, domains.created_at, domains.proved_at, domains.checked_at, domains.reason';

/** @returns null for an unknown app */
export function listDomains(db: Reader, appId: string, page: Position): Promise<Page<DomainRow> | null> {
  const select = { columns: COLUMNS, from: 'domains', by: 'hostname' } as const;
  return listOfApp(db, appId, select, page);
}

/** Returns a hostname of an app; null when the app does not have it. */
export async function findDomain(
  db: D1Database,
  appId: string,
  hostname: string,
): Promise<DomainOfApp | null> {
  return db
    .prepare(
      `SELECT ${COLUMNS}, apps.slug FROM domains JOIN apps ON apps.id = domains.app_id
       WHERE apps.id = ? AND hostname = ? AND deleted_at IS NULL`,
    )
    .bind(appId, hostname)
    .first<DomainOfApp>();
}

/** Why an app may not get a hostname. */
export interface DomainObstacles {
  /** The app that has the hostname; null for none. */
  app_id: string | null;
  /** When DNS proved the hostname for that app; null until then. */
  proved_at: string | null;
  /** When it was removed from another owner's app; null when it is not reserved. */
  removed_at: string | null;
}

/**
 * Returns why an app may not get a hostname.
 * @param reservedFrom hostnames removed after this time, ISO 8601, are reserved
 */
export async function domainObstacles(
  db: D1Database,
  appId: string,
  hostname: string,
  reservedFrom: string,
): Promise<DomainObstacles> {
  const found = await db
    .prepare(
      `SELECT domains.app_id, domains.proved_at, removed_domains.removed_at FROM (SELECT 1)
       LEFT JOIN domains ON domains.hostname = ?2
       LEFT JOIN removed_domains ON removed_domains.hostname = ?2 AND removed_at > ?3
         AND removed_domains.owner_id <> (SELECT owner_id FROM apps WHERE id = ?1)`,
    )
    .bind(appId, hostname, reservedFrom)
    .first<DomainObstacles>();
  return found!;
}

/** Writes why a lookup did not prove a pending hostname. */
export async function noteLookup(
  db: D1Database,
  { hostname, app_id }: DomainRow,
  reason: string,
  at: string,
): Promise<void> {
  await db
    .prepare(
      `UPDATE domains SET checked_at = ?3, reason = ?4
       WHERE hostname = ?1 AND app_id = ?2 AND proved_at IS NULL`,
    )
    .bind(hostname, app_id, at, reason)
    .run();
}

/**
 * Returns pending hostnames whose lookup is due, the longest wait first. The interval is an eighth of the time since the
 * hostname was added: at least 50 seconds, at most an hour.
 * @param at the current time, ISO 8601
 */
export async function dueDomains(db: D1Database, at: string, limit: number): Promise<DomainOfApp[]> {
  const { results } = await db
    .prepare(
      `SELECT ${COLUMNS}, apps.slug FROM domains JOIN apps ON apps.id = domains.app_id
       WHERE proved_at IS NULL AND deleted_at IS NULL
         AND unixepoch(?1) - unixepoch(coalesce(checked_at, domains.created_at))
           >= min(max((unixepoch(?1) - unixepoch(domains.created_at)) / 8, 50), 3600)
       ORDER BY checked_at LIMIT ?2`,
    )
    .bind(at, limit)
    .all<DomainOfApp>();
  return results;
}
