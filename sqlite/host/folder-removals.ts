// Rows of the host's `folder_removals` table: apps that were deleted or have moved, whose folder is still in the bucket.
import type { Database } from 'better-sqlite3';

/** Returns the queries of `folder_removals`. Their times are ISO 8601. */
export function folderRemovalQueries(database: Database) {
  const add = database.prepare<[string, string]>(
    'INSERT INTO folder_removals (app_id, due_at) VALUES (?, ?) ON CONFLICT (app_id) DO NOTHING',
  );
  const due = database.prepare<[string], { app_id: string }>(
    'SELECT app_id FROM folder_removals WHERE due_at <= ? ORDER BY due_at',
  );
  const dueAt = database
    .prepare<[string], string>(
      `SELECT due_at FROM folder_removals WHERE app_id = ? AND NOT EXISTS (
         SELECT 1 FROM apps WHERE id = app_id AND deleted_at IS NULL AND wanted ->> 'storage' = 'bucket'
       )`,
    )
    .pluck();
  const removed = database.prepare<[string, string]>(
    'DELETE FROM folder_removals WHERE app_id = ? AND due_at = ?',
  );
  const remove = database.prepare<[string]>('DELETE FROM folder_removals WHERE app_id = ?');
  return {
    add: (appId: string, dueAt: string): void => {
      add.run(appId, dueAt);
    },
    /** Returns the ids of the apps whose folder is due for removal, the earliest first. */
    due: (now: string): string[] => due.all(now).map(({ app_id }) => app_id),
    /** Returns when an app's folder is to be removed; null when it stays, such as for an app that keeps its data there. */
    dueAt: (appId: string): string | null => dueAt.get(appId) ?? null,
    /** Records that the folder due at `due` was removed. Keeps a row with another time, which was added meanwhile. */
    removed: (appId: string, due: string): void => {
      removed.run(appId, due);
    },
    delete: (appId: string): void => {
      remove.run(appId);
    },
  };
}
export type FolderRemovalQueries = ReturnType<typeof folderRemovalQueries>;
