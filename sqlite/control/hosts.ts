// The hosts of a Cellar with several hosts, the home of each app (the host that runs it), and the routes of apps.
import type { AppRoute, HostReport } from '../../handlers/contract/host/hosts.ts';
import { raiseRevision } from './meta.ts';

/** Maximum rows of `deleted_apps`. */
const DELETIONS_KEPT = 1_000;

/** A host. Times are ISO 8601. */
export interface HostRow {
  id: string;
  name: string;
  address: string;
  version: string;
  protocol: number;
  started_at: string;
  joined_at: string;
  is_draining: 0 | 1;
  /** When it was found not to report; null while it reports. */
  silent_since: string | null;
}

/** Counts of apps whose home is the host with the id `home`. `local`: those that cannot move to another host. */
export interface HomeCounts {
  home: string;
  apps: number;
  local: number;
}

const COLUMNS = 'id, name, address, version, protocol, started_at, joined_at, is_draining, silent_since';

/** Returns all hosts, in the order in which they joined. */
export async function listHosts(db: D1Database): Promise<HostRow[]> {
  const { results } = await db.prepare(`SELECT ${COLUMNS} FROM hosts ORDER BY joined_at, id`).all<HostRow>();
  return results;
}

/** Returns how many apps each host is the home of; hosts without apps are left out. */
export async function countHomes(db: D1Database): Promise<HomeCounts[]> {
  const { results } = await db
    .prepare(
      `SELECT home, count(*) AS apps, sum(storage = 'local') AS local FROM apps
       WHERE home IS NOT NULL AND deleted_at IS NULL GROUP BY home`,
    )
    .all<HomeCounts>();
  return results;
}

/**
 * Writes what a host reports of itself, and ends its silence. If `report.adopts`, it becomes the home of every app without
 * one: it was the only host before.
 * @param at the time of the report, ISO 8601
 */
export async function writeHost(db: D1Database, report: HostReport, at: string): Promise<HostRow> {
  const insert = db
    .prepare(
      `INSERT INTO hosts (id, name, address, version, protocol, started_at, joined_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
       ON CONFLICT (id) DO UPDATE SET name = excluded.name, address = excluded.address, version = excluded.version,
         protocol = excluded.protocol, started_at = excluded.started_at, silent_since = NULL
       RETURNING ${COLUMNS}`,
    )
    .bind(report.id, report.name, report.address, report.version, report.protocol, report.started_at, at);
  const adopt = db
    .prepare(
      `UPDATE apps SET home = ?1, generation = (SELECT revision FROM meta)
       WHERE home IS NULL AND ?2`,
    )
    .bind(report.id, Number(report.adopts));
  const [written] = await db.batch<HostRow>([insert, raiseRevision(db), adopt]);
  return written!.results[0]!;
}

/** Records that a host does not report. @param at the time at which that was found, ISO 8601 */
export async function silenceHost(db: D1Database, id: string, at: string): Promise<void> {
  await db.prepare('UPDATE hosts SET silent_since = ?2 WHERE id = ?1').bind(id, at).run();
}

/** Sets whether a host is draining: then its apps move to other hosts. */
export async function drainHost(db: D1Database, id: string, drains: boolean): Promise<void> {
  await db.prepare('UPDATE hosts SET is_draining = ?2 WHERE id = ?1').bind(id, Number(drains)).run();
}

/**
 * Removes a host. Its apps keep it as their home. Removes the rows of its deleted apps, except those in the bucket whose
 * deletion is confirmed: another host can undelete these. If the host comes back, it deletes the data of apps without a row.
 */
export async function deleteHost(db: D1Database, id: string): Promise<void> {
  await db.batch([
    db.prepare('DELETE FROM hosts WHERE id = ?').bind(id),
    db
      .prepare(
        `DELETE FROM apps WHERE home = ? AND deleted_at IS NOT NULL AND (trashed_at IS NULL OR storage = 'local')`,
      )
      .bind(id),
  ]);
}

/** Whether a host has no row: it was removed, or never existed. */
export async function isRemoved(db: D1Database, id: string): Promise<boolean> {
  return (await db.prepare('SELECT 1 FROM hosts WHERE id = ?').bind(id).first()) === null;
}

const MOVABLE = "home = ?1 AND storage = 'bucket' AND deleted_at IS NULL";

/**
 * Returns ids of apps whose home is a host and that can move to another one: running ones, then sleeping ones, then stopped
 * ones. Of the sleeping apps, the last to fall asleep comes first.
 */
export async function movableApps(db: D1Database, home: string, limit: number): Promise<string[]> {
  const { results } = await db
    .prepare(
      `SELECT id FROM apps WHERE ${MOVABLE}
       ORDER BY desired_state = 'running' DESC, asleep_since IS NULL DESC, asleep_since DESC, id LIMIT ?2`,
    )
    .bind(home, limit)
    .all<{ id: string }>();
  return results.map(({ id }) => id);
}

/** Returns those of the given apps whose home is a host and that can move to another one. */
export async function movableAmong(db: D1Database, home: string, ids: string[]): Promise<string[]> {
  const { results } = await db
    .prepare(`SELECT id FROM apps WHERE ${MOVABLE} AND id IN (SELECT value FROM json_each(?2))`)
    .bind(home, JSON.stringify(ids))
    .all<{ id: string }>();
  return results.map(({ id }) => id);
}

/**
 * Returns the statement that changes the home of an app in the bucket. It returns no row if `from` is no longer its home.
 */
export function changeHome(
  db: D1Database,
  id: string,
  { from, to }: { from: string | null; to: string },
): D1PreparedStatement {
  return db
    .prepare(
      `UPDATE apps SET home = ?3
       WHERE id = ?1 AND home IS ?2 AND storage = 'bucket' AND deleted_at IS NULL RETURNING id`,
    )
    .bind(id, from, to);
}

/**
 * Returns the statement that undoes `changeHome`, also for an app whose data has moved to the disk of `from` since. It returns
 * no row if `to` is no longer its home.
 */
export function restoreHome(
  db: D1Database,
  id: string,
  { from, to }: { from: string; to: string },
): D1PreparedStatement {
  return db
    .prepare('UPDATE apps SET home = ?2 WHERE id = ?1 AND home = ?3 AND deleted_at IS NULL RETURNING id')
    .bind(id, from, to);
}

/** Changes the home of deleted apps in the bucket. The new home confirms deletions that the old one has not confirmed. */
export async function moveDeletions(db: D1Database, from: string, to: string): Promise<void> {
  await db
    .prepare(`UPDATE apps SET home = ?2 WHERE home = ?1 AND storage = 'bucket' AND deleted_at IS NOT NULL`)
    .bind(from, to)
    .run();
}

/**
 * Makes a host the home of apps whose data is on its disk, if their home was removed. A machine that was restored
 * from a snapshot has another id than before.
 * @returns whether any app got this home
 */
export async function adoptLocalApps(db: D1Database, ids: string[], host: string): Promise<boolean> {
  const adopt = db
    .prepare(
      `UPDATE apps SET home = ?2, generation = (SELECT revision FROM meta)
       WHERE id IN (SELECT value FROM json_each(?1)) AND storage = 'local' AND deleted_at IS NULL
         AND home NOT IN (SELECT id FROM hosts) RETURNING id`,
    )
    .bind(JSON.stringify(ids), host);
  const [, adopted] = await db.batch([raiseRevision(db), adopt]);
  return adopted!.results.length > 0;
}

/** Returns the home of an app by its id or slug; null for an unknown app, or one without a home. */
export async function homeOf(db: D1Database, app: string): Promise<string | null> {
  const found = await db
    .prepare('SELECT home FROM apps WHERE (id = ?1 OR slug = ?1) AND deleted_at IS NULL')
    .bind(app)
    .first<{ home: string | null }>();
  return found?.home ?? null;
}

/** Routes as of `revision`. */
export interface Routes {
  revision: number;
  /** Whether `routes` has all routes. Otherwise it has the routes that changed since the revision that the host knows. */
  whole: boolean;
  routes: AppRoute[];
  /** Ids of apps that were deleted; empty when `whole`. */
  deleted: string[];
}

/** Returns the routes that a host does not know. @param since the revision of the routes that it knows; 0 for none */
export async function readRoutes(db: D1Database, since: number): Promise<Routes> {
  const known = `(CASE WHEN ?1 > (SELECT revision FROM meta)
    OR ?1 < coalesce((SELECT revision FROM deleted_apps ORDER BY revision DESC LIMIT 1 OFFSET ${DELETIONS_KEPT - 1}), 0)
    THEN 0 ELSE ?1 END)`;
  const [meta, apps, deleted] = await db.batch<Record<string, unknown>>([
    db.prepare(`SELECT revision, ${known} AS known FROM meta`).bind(since),
    db
      .prepare(
        `SELECT id, slug, owner_id, client_rpm, app_rpm, storage, home, generation,
           (SELECT json_group_array(hostname) FROM domains WHERE app_id = apps.id AND proved_at IS NOT NULL) AS hostnames,
           (SELECT json_group_array(address) FROM mail_routes WHERE app_id = apps.id) AS mail,
           (SELECT json_group_array(port) FROM tcp_ports WHERE app_id = apps.id) AS tcp
         FROM apps WHERE home IS NOT NULL AND deleted_at IS NULL AND generation > ${known}`,
      )
      .bind(since),
    db.prepare(`SELECT id FROM deleted_apps WHERE ${known} > 0 AND revision > ?1`).bind(since),
  ]);
  const { revision, known: from } = meta!.results[0] as { revision: number; known: number };
  return {
    revision,
    whole: from === 0,
    routes: (apps!.results as unknown as RouteRow[]).map(routeOf),
    deleted: deleted!.results.map(({ id }) => id as string),
  };
}

interface RouteRow {
  id: string;
  slug: string;
  owner_id: string;
  client_rpm: number | null;
  app_rpm: number | null;
  storage: 'local' | 'bucket';
  home: string;
  generation: number;
  hostnames: string;
  mail: string;
  tcp: string;
}

function routeOf({
  id,
  slug,
  owner_id,
  client_rpm,
  app_rpm,
  storage,
  home,
  generation,
  hostnames,
  mail,
  tcp,
}: RouteRow): AppRoute {
  return {
    id,
    slug,
    owner: owner_id,
    hostnames: JSON.parse(hostnames),
    mail: JSON.parse(mail),
    tcp: JSON.parse(tcp),
    limits: { clientRpm: client_rpm, appRpm: app_rpm },
    storage,
    home,
    generation,
  };
}
