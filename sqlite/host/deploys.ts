// Rows of the host's `deploys` table: the queue, the history and the logs.
import type { Database } from 'better-sqlite3';
import type { DeployFact } from '../../handlers/contract/host/host-calls.ts';

export function deployQueries(database: Database) {
  const save = database.prepare<{ id: string; app: string; fact: string; releaseOf: string | null }>(
    `INSERT INTO deploys (id, app_id, fact, release_of)
     SELECT @id, @app, @fact, @releaseOf WHERE EXISTS (SELECT 1 FROM apps WHERE id = @app AND deleted_at IS NULL)
     ON CONFLICT (id) DO UPDATE SET fact = excluded.fact`,
  );
  const saveLog = database.prepare<[string, string]>('UPDATE deploys SET log = ? WHERE id = ?');
  const log = database.prepare<[string, string], { log: string }>(
    'SELECT log FROM deploys WHERE app_id = ? AND id = ?',
  );
  const unfinished = database.prepare<[], { fact: string }>(
    "SELECT fact FROM deploys WHERE status IN ('queued', 'building') ORDER BY id",
  );
  const find = database.prepare<[string, string], { fact: string }>(
    'SELECT fact FROM deploys WHERE app_id = ? AND id = ?',
  );
  const successful = database.prepare<[string, number], { id: string }>(
    "SELECT id FROM deploys WHERE app_id = ? AND status IN ('live', 'replaced') ORDER BY rowid DESC LIMIT ?",
  );
  const released = database.prepare<[string], { fact: string }>(
    "SELECT fact FROM deploys WHERE app_id = ? AND fact ->> 'can_roll_back' = 1",
  );
  const last = database.prepare<[string, number], { fact: string; release_of: string | null }>(
    'SELECT fact, release_of FROM deploys WHERE app_id = ? ORDER BY rowid DESC LIMIT ?',
  );
  const newest = database.prepare<[string, number], { fact: string }>(
    `SELECT fact FROM deploys
     WHERE app_id = ? AND fact ->> 'trigger' NOT IN ('rollback', 'redeploy', 'upload', 'promote') ORDER BY rowid DESC LIMIT ?`,
  );
  const lastAsked = database.prepare<[string], { status: string; at: string }>(
    `SELECT status, fact ->> 'created_at' AS at FROM deploys WHERE app_id = ?
     ORDER BY status IN ('queued', 'building') DESC, rowid DESC LIMIT 1`,
  );
  const prune = database.prepare<{ app: string; count: number; kept: string }>(
    `DELETE FROM deploys WHERE app_id = @app AND status NOT IN ('queued', 'building')
     AND rowid <= (SELECT rowid FROM deploys WHERE app_id = @app ORDER BY rowid DESC LIMIT 1 OFFSET @count)
     AND id NOT IN (SELECT value FROM json_each(@kept))`,
  );
  const deleteOfDeletedApps = database.prepare<[]>(
    'DELETE FROM deploys WHERE app_id IN (SELECT id FROM apps WHERE deleted_at IS NOT NULL)',
  );

  return {
    /**
     * Inserts or replaces a deploy. Does nothing for a deleted app.
     * @param releaseOf for a new rollback: the deploy whose release it starts again
     */
    save: (fact: DeployFact, releaseOf: string | null = null): void => {
      save.run({ id: fact.id, app: fact.app_id, fact: JSON.stringify(fact), releaseOf });
    },
    /** Replaces the stored tail of a deploy's log. */
    saveLog: (id: string, text: string): void => {
      saveLog.run(text, id);
    },
    /** Removes deploys of an app, except the newest `count`, unfinished ones, and those in `kept`. */
    prune: (appId: string, count: number, kept: string[]): void => {
      prune.run({ app: appId, count, kept: JSON.stringify(kept) });
    },
    /** Removes all deploys of deleted apps. */
    deleteOfDeletedApps: (): void => {
      deleteOfDeletedApps.run();
    },
    /** Returns the log of an app's deploy; undefined when the app has no such deploy. */
    log: (appId: string, id: string): string | undefined => log.get(appId, id)?.log,
    /** Returns an app's deploy; undefined when the app has no such deploy. */
    find: (appId: string, id: string): DeployFact | undefined => parse(find.get(appId, id)),
    /** Returns the app's deploys that can be rolled back to. */
    released: (appId: string): DeployFact[] =>
      released.all(appId).map((row) => JSON.parse(row.fact) as DeployFact),
    /**
     * Returns when the app's newest unfinished deploy was requested, else its newest deploy. `isUnderWay`: whether that
     * deploy is unfinished. Undefined for an app without a deploy.
     */
    lastAsked: (appId: string): { at: string; isUnderWay: boolean } | undefined => {
      const found = lastAsked.get(appId);
      return found && { at: found.at, isUnderWay: ['queued', 'building'].includes(found.status) };
    },
    /** Returns ids of the app's deploys that went live, newest first. */
    successful: (appId: string, limit: number): string[] => successful.all(appId, limit).map(({ id }) => id),
    /** Returns the app's newest deploys of new commits, newest first: no rollbacks, redeploys, uploads or promotions. */
    newest: (appId: string, limit: number): DeployFact[] =>
      newest.all(appId, limit).map((row) => JSON.parse(row.fact) as DeployFact),
    /**
     * Returns the app's newest deploys of any kind, newest first. `releaseOf`: the deploy whose release a rollback starts.
     */
    last: (appId: string, limit: number): { fact: DeployFact; releaseOf: string | null }[] =>
      last
        .all(appId, limit)
        .map((row) => ({ fact: JSON.parse(row.fact) as DeployFact, releaseOf: row.release_of })),
    /** Returns deploys that are queued or building, oldest first. */
    unfinished: (): DeployFact[] => unfinished.all().map((row) => JSON.parse(row.fact) as DeployFact),
  };
}

function parse(row: { fact: string } | undefined): DeployFact | undefined {
  return row && (JSON.parse(row.fact) as DeployFact);
}
