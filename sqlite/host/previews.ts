// Rows of the host's `previews` table: apps that only this host knows, each a preview of another app.
import type { Database } from 'better-sqlite3';

/** A preview. Times are ms since 1970. */
export interface PreviewRow {
  /** Its id as an app of this host. */
  id: string;
  /** The app that it is a preview of. */
  parentId: string;
  /** The first part of its address, before the app's slug. */
  name: string;
  /** What it shows: `refs/heads/…`, `alias:…` or `version:…`. An app has one preview of each. */
  source: string;
  /** The uploaded version that it shows; `null` for a branch. */
  versionId: string | null;
  createdAt: number;
  expiresAt: number;
}

/** A preview with what the host keeps of it as of an app. */
export interface HostedPreview extends PreviewRow {
  /** Whether it is being deleted. */
  isDeleted: boolean;
  liveDeployId: string | null;
  /** ISO 8601; null until a release was live. */
  deployedAt: string | null;
}

type Stored = Omit<HostedPreview, 'isDeleted'> & { isDeleted: 0 | 1 };

/** What may be left of a preview in other tables when it goes. */
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
    /** Every preview, those that are being deleted too, by id. */
    all: (): HostedPreview[] => all.all().map((row) => ({ ...row, isDeleted: row.isDeleted === 1 })),
    /** Adds a preview, whose app is there already. */
    add: (row: PreviewRow): void => {
      add.run(row);
    },
    /** Writes down what a preview shows from now on, and until when it is kept. */
    renew: (id: string, versionId: string | null, expiresAt: number): void => {
      renew.run(versionId, expiresAt, id);
    },
    /** Forgets a preview and its app, in the transaction around this call. No control plane knows it, so it leaves no tombstone. */
    remove: (id: string): void => {
      for (const statement of remove) statement.run(id);
    },
  };
}
export type PreviewQueries = ReturnType<typeof previewQueries>;
