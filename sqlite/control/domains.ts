// Custom hostnames: reading them, and what their lookups found.
import { readOfApp } from './apps/apps.ts';
import { type Page, pageOf } from './page.ts';
import type { Reader } from './reads.ts';

export interface DomainRow {
  hostname: string;
  app_id: string;
  created_at: string;
  /** Null while its DNS proves nothing: then it is not served. */
  proved_at: string | null;
  /** Time of the last lookup; null before the first. */
  checked_at: string | null;
  /** Why it was not proved by the last lookup. */
  reason: string | null;
}

/** A hostname with the slug of its app. */
export type DomainOfApp = DomainRow & { slug: string };

const COLUMNS =
  'domains.hostname, domains.app_id, domains.created_at, domains.proved_at, domains.checked_at, domains.reason';

/** @returns null for an unknown app */
export async function listDomains(
  db: Reader,
  appId: string,
  { after, limit }: { after: string; limit: number },
): Promise<Page<DomainRow> | null> {
  const statement = db
    .prepare(`SELECT ${COLUMNS} FROM domains WHERE app_id = ? AND hostname > ? ORDER BY hostname LIMIT ?`)
    .bind(appId, after, limit + 1);
  const rows = await readOfApp<DomainRow>(db, appId, statement);
  return rows && pageOf(rows, limit, ({ hostname }) => [hostname]);
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

/** What stands in the way of a hostname for an app. */
export interface DomainObstacles {
  /** The app that has it, and whether that has proved it. */
  app_id: string | null;
  proved_at: string | null;
  /** When another owner's app had it last, if it is still reserved. */
  removed_at: string | null;
}

/** @param reservedFrom hostnames that were removed after this time, ISO 8601, are reserved */
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

/** Writes what a lookup of a pending hostname found. */
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
 * Returns pending hostnames whose lookup is due, those that wait longest first. A hostname is looked up a minute after the
 * last time, then ever more rarely: after an eighth of the time since it was added, and once an hour at least.
 * @param at the time now, ISO 8601
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
