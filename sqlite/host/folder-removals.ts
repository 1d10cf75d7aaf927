// Rows of the host's `folder_removals` table: deleted apps whose folder is still in the bucket.
import type { Database } from 'better-sqlite3';

/** Typed queries over the `folder_removals` table. Times are ISO 8601. */
export function folderRemovalQueries(database: Database) {
  const add = database.prepare<[string, string]>(
    'INSERT INTO folder_removals (app_id, due_at) VALUES (?, ?) ON CONFLICT (app_id) DO NOTHING',
  );
  const due = database.prepare<[string], { app_id: string }>(
    'SELECT app_id FROM folder_removals WHERE due_at <= ? ORDER BY due_at',
  );
  const remove = database.prepare<[string]>('DELETE FROM folder_removals WHERE app_id = ?');
  return {
    add: (appId: string, dueAt: string): void => {
      add.run(appId, dueAt);
    },
    /** Returns the ids of the apps whose folder is due for removal, the earliest first. */
    due: (now: string): string[] => due.all(now).map(({ app_id }) => app_id),
    delete: (appId: string): void => {
      remove.run(appId);
    },
  };
}
export type FolderRemovalQueries = ReturnType<typeof folderRemovalQueries>;
