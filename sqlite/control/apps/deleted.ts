// Deleted apps that can be undeleted: a host has confirmed the deletion, and keeps the data for a while.
import { raiseRevision } from '../meta.ts';
import { type Page, pageOf } from '../page.ts';
import type { Reader } from '../reads.ts';
import { quotaOf, type Wanted, wantedFrom, wantedOf } from './transitions.ts';

/** An app that can be undeleted. */
export interface DeletedRow {
  id: string;
  slug: string;
  owner_id: string;
  storage: 'local' | 'bucket';
  home: string | null;
  deleted_at: string;
  /** The dispatch namespace of a script; null for an app that is not a script. */
  dispatch_namespace: string | null;
}

const COLUMNS = 'id, deleted_slug AS slug, owner_id, storage, home, deleted_at, dispatch_namespace';
/** Whether the account `?1` may undelete the app: it owns the app, or is an admin of it. With null, always true. */
const MAY_UNDELETE = `(?1 IS NULL OR owner_id = ?1
  OR id IN (SELECT app_id FROM collaborators WHERE account_id = ?1 AND role = 'admin'))`;

/** Records that the host confirmed an app's deletion: frees its slug, hostnames and TCP ports, and withdraws its invites. */
export async function trashApp(db: D1Database, id: string, at: string): Promise<void> {
  const isTrashed = 'EXISTS (SELECT 1 FROM apps WHERE id = ?1 AND trashed_at IS NOT NULL)';
  await db.batch([
    db
      .prepare(
        `UPDATE apps SET trashed_at = ?2, deleted_slug = coalesce(deleted_slug, slug), slug = '~' || id, deleted_domains =
           (SELECT json_group_array(json_array(hostname, created_at, proved_at)) FROM domains WHERE app_id = ?1)
         WHERE id = ?1 AND deleted_at IS NOT NULL AND trashed_at IS NULL`,
      )
      .bind(id, at),
    db.prepare(`DELETE FROM domains WHERE app_id = ?1 AND ${isTrashed}`).bind(id),
    db.prepare(`DELETE FROM tcp_ports WHERE app_id = ?1 AND ${isTrashed}`).bind(id),
    db.prepare(`DELETE FROM invites WHERE app_id = ?1 AND ${isTrashed}`).bind(id),
  ]);
}

/**
 * Returns apps that can be undeleted, the most recently deleted first.
 * @param filter.by the account that must be able to undelete them; null for all
 * @param filter.since only apps that were deleted after this time, ISO 8601
 * @param filter.before `deleted_at` and id to continue from
 */
export async function listDeleted(
  db: Reader,
  filter: { by: string | null; since: string; before: [string, string] | null; limit: number },
): Promise<Page<DeletedRow>> {
  const [at, id] = filter.before ?? [null, null];
  const statement = db
    .prepare(
      `SELECT ${COLUMNS} FROM apps WHERE trashed_at IS NOT NULL AND deleted_at > ?2 AND ${MAY_UNDELETE}
         AND (?3 IS NULL OR (deleted_at, id) < (?3, ?4))
       ORDER BY deleted_at DESC, id DESC LIMIT ?5`,
    )
    .bind(filter.by, filter.since, at, id, filter.limit + 1);
  const [rows] = await db.batch<DeletedRow>([statement]);
  return pageOf(rows!.results, filter.limit, (row) => [row.deleted_at, row.id]);
}

/** Finds a deleted app by its id, or the most recently deleted one with a slug. For `by` and `since` see `listDeleted`. */
export async function findDeleted(
  db: Reader,
  app: string,
  { by, since }: { by: string | null; since: string },
): Promise<DeletedRow | null> {
  const statement = db
    .prepare(
      `SELECT ${COLUMNS} FROM apps WHERE trashed_at IS NOT NULL AND deleted_at > ?2 AND ${MAY_UNDELETE}
         AND (id = ?3 OR deleted_slug = ?3) ORDER BY id = ?3 DESC, deleted_at DESC LIMIT 1`,
    )
    .bind(by, since, app);
  const [rows] = await db.batch<DeletedRow>([statement]);
  return rows!.results[0] ?? null;
}

/**
 * Undeletes an app, with its hostnames that are neither taken by another app nor reserved for another account.
 * @param undeletion.slug its slug from now on
 * @param undeletion.quota maximum apps of an owner without a maximum of their own
 * @returns the app; `quota_exceeded`; null when the app can no longer be undeleted
 * @throws when another app has the slug
 */
export async function undeleteApp(
  db: D1Database,
  id: string,
  { slug, home, quota }: { slug: string; home: string | null; quota: number },
): Promise<Wanted | 'quota_exceeded' | null> {
  const [, , , , , there, ...read] = await db.batch([
    raiseRevision(db),
    db
      .prepare(
        `UPDATE apps SET deleted_at = NULL, trashed_at = NULL, deleted_slug = NULL, slug = ?2, home = ?3,
           undeleted = (SELECT revision FROM meta), generation = (SELECT revision FROM meta)
         WHERE id = ?1 AND trashed_at IS NOT NULL
           AND (SELECT count(*) FROM apps AS others WHERE others.owner_id = apps.owner_id AND deleted_at IS NULL
               AND (others.dispatch_namespace IS NULL) = (apps.dispatch_namespace IS NULL))
             < (SELECT ${quotaOf('apps.dispatch_namespace')} FROM accounts WHERE accounts.id = apps.owner_id)`,
      )
      .bind(id, slug, home, quota),
    db
      .prepare(
        `INSERT INTO domains (hostname, app_id, created_at, proved_at)
         SELECT freed.value ->> 0, apps.id, freed.value ->> 1, freed.value ->> 2
         FROM apps, json_each(apps.deleted_domains) AS freed WHERE apps.id = ?1 AND deleted_at IS NULL
           AND NOT EXISTS (SELECT 1 FROM removed_domains
             WHERE hostname = freed.value ->> 0 AND removed_domains.owner_id <> apps.owner_id)
         ON CONFLICT (hostname) DO NOTHING`,
      )
      .bind(id),
    db.prepare('UPDATE apps SET deleted_domains = NULL WHERE id = ? AND deleted_at IS NULL').bind(id),
    db
      .prepare(
        `DELETE FROM deleted_apps WHERE id = ?1
           AND EXISTS (SELECT 1 FROM apps WHERE id = ?1 AND deleted_at IS NULL)`,
      )
      .bind(id),
    db.prepare('SELECT 1 FROM apps WHERE id = ? AND trashed_at IS NOT NULL').bind(id),
    ...wantedOf(db, id),
  ]);
  return wantedFrom(read) ?? (there!.results.length > 0 ? 'quota_exceeded' : null);
}

/** Removes the rows of at most `limit` apps that were deleted at `before`, ISO 8601, or earlier. @returns their number */
export async function removeDeleted(db: D1Database, before: string, limit: number): Promise<number> {
  const { meta } = await db
    .prepare(
      `DELETE FROM apps WHERE id IN
         (SELECT id FROM apps WHERE trashed_at IS NOT NULL AND deleted_at <= ?1 ORDER BY deleted_at LIMIT ?2)`,
    )
    .bind(before, limit)
    .run();
  return meta.changes;
}
