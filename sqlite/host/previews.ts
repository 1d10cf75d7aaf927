// Rows of the host's `previews` table. A preview of an app is itself an app, which only this host knows.
import type { Database } from 'better-sqlite3';

/** A preview. Times are ms since 1970. */
export interface PreviewRow {
  /** Its id as an app of this host. */
  id: string;
  /** The app that it is a preview of. */
  parentId: string;
  /** The first part of its address, before the app's slug. */
  name: string;
  /** Its source: `refs/heads/…`, `alias:…` or `version:…`. An app has one preview of each. */
  source: string;
  /** The uploaded version that it shows; `null` for a branch. */
  versionId: string | null;
  createdAt: number;
  expiresAt: number;
}

/** A preview, with columns of its row in `apps`. */
export interface HostedPreview extends PreviewRow {
  /** Whether it is being deleted. */
  isDeleted: boolean;
  liveDeployId: string | null;
  /** ISO 8601; null until a release was live. */
  deployedAt: string | null;
}

type Stored = Omit<HostedPreview, 'isDeleted'> & { isDeleted: 0 | 1 };

/** Other tables with rows of a preview, to be removed with it. */
const BELONGINGS = ['deploys', 'activity', 'held', 'secrets', 'alerts'];

/** Typed queries over the `previews` table. */
export function previewQueries(database: Database) {
  const all = database.prepare<[], Stored>(
    `SELECT previews.id, parent_id AS parentId, name, source, version_id AS versionId, created_at AS createdAt,
       expires_at AS expiresAt, deleted_at IS NOT NULL AS isDeleted, live_deploy_id AS liveDeployId, deployed_at AS deployedAt
     FROM previews JOIN apps ON apps.id = previews.id ORDER BY previews.id`,
  );
  const add = database.prepare<PreviewRow>(
    `INSERT INTO previews (id, parent_id, name, source, version_id, created_at, expires_at)
     VALUES (@id, @parentId, @name, @source, @versionId, @createdAt, @expiresAt)`,
  );
  const renew = database.prepare<[string | null, number, string]>(
    'UPDATE previews SET version_id = ?, expires_at = ? WHERE id = ?',
  );
  const remove = [
    'DELETE FROM previews WHERE id = ?',
    ...BELONGINGS.map((table) => `DELETE FROM ${table} WHERE app_id = ?`),
    'DELETE FROM apps WHERE id = ?',
  ].map((sql) => database.prepare<[string]>(sql));

  return {
    /** Returns every preview, by id, including those being deleted. */
    all: (): HostedPreview[] => all.all().map((row) => ({ ...row, isDeleted: row.isDeleted === 1 })),
    /** Adds a preview, whose app exists already. */
    add: (row: PreviewRow): void => {
      add.run(row);
    },
    /** Sets the version that a preview shows, and its expiry time. */
    renew: (id: string, versionId: string | null, expiresAt: number): void => {
      renew.run(versionId, expiresAt, id);
    },
    /** Removes a preview and its app, in the caller's transaction. No tombstone: the control plane does not know it. */
    remove: (id: string): void => {
      for (const statement of remove) statement.run(id);
    },
  };
}
