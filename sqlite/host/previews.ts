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
  /** Its source: `refs/heads/…`, `alias:…`, `version:…` or `split:…`. An app has one preview of each. */
  source: string;
  /** The uploaded version that it shows; `null` for a branch. */
  versionId: string | null;
  createdAt: number;
  expiresAt: number;
  /**
   * In a split, two versions of an app share its requests. The percentage that this preview gets as the second version; null
   * or left out: none.
   */
  share?: number | null;
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

export function previewQueries(database: Database) {
  const all = database.prepare<[], Stored>(
    `SELECT previews.id, parent_id AS parentId, name, source, version_id AS versionId, created_at AS createdAt,
       expires_at AS expiresAt, share, deleted_at IS NOT NULL AS isDeleted, live_deploy_id AS liveDeployId, deployed_at AS deployedAt
     FROM previews JOIN apps ON apps.id = previews.id ORDER BY previews.id`,
  );
  const add = database.prepare<PreviewRow>(
    `INSERT INTO previews (id, parent_id, name, source, version_id, created_at, expires_at, share)
     VALUES (@id, @parentId, @name, @source, @versionId, @createdAt, @expiresAt, @share)`,
  );
  const renew = database.prepare<[string | null, number, string]>(
    'UPDATE previews SET version_id = ?, expires_at = ? WHERE id = ?',
  );
  const setShare = database.prepare<[number, string]>('UPDATE previews SET share = ? WHERE id = ?');
  const endSplit = database.prepare<[string]>(
    'UPDATE previews SET share = NULL WHERE parent_id = ? AND share IS NOT NULL',
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
      add.run({ share: null, ...row });
    },
    /** Sets the version that a preview shows, and its expiry time. */
    renew: (id: string, versionId: string | null, expiresAt: number): void => {
      renew.run(versionId, expiresAt, id);
    },
    /**
     * Makes a preview the second version of a split. `share`: its percentage of the requests. Replaces any other.
     */
    setShare: (parentId: string, id: string, share: number): void => {
      endSplit.run(parentId);
      setShare.run(share, id);
    },
    /** Ends the split of an app: its live release gets all requests. */
    endSplit: (parentId: string): void => {
      endSplit.run(parentId);
    },
    /**
     * Removes a preview, its row in `apps` and its other rows, in the caller's transaction. Leaves no tombstone, because the
     * control plane does not know previews.
     */
    remove: (id: string): void => {
      for (const statement of remove) statement.run(id);
    },
  };
}
