// The host's database as one object of typed queries.
import { activityQueries } from './activity.ts';
import { alertQueries } from './alerts.ts';
import { appRecordQueries } from './app-records.ts';
import { appQueries } from './apps.ts';
import { buildUserQueries } from './build-users.ts';
import { openHostDatabase } from './database.ts';
import { deployQueries } from './deploys.ts';
import { folderRemovalQueries } from './folder-removals.ts';
import { heldQueries } from './held.ts';
import { outboxQueries } from './outbox.ts';
import { previewQueries } from './previews.ts';
import { secretQueries } from './secrets.ts';
import { snapshotQueries } from './snapshots.ts';
import { sourceQueries } from './source/connections.ts';
import { pullQueries } from './source/pulls.ts';
import { WriteAheadLog } from './write-ahead-log.ts';

/**
 * Opens the host's database.
 * @param path the file; created if missing
 */
export function openHostStore(path: string) {
  const database = openHostDatabase(path);
  const log = new WriteAheadLog(database);
  return {
    activity: activityQueries(database),
    records: appRecordQueries(database),
    alerts: alertQueries(database),
    apps: appQueries(database),
    buildUsers: buildUserQueries(database),
    deploys: deployQueries(database),
    folderRemovals: folderRemovalQueries(database),
    held: heldQueries(database),
    outbox: outboxQueries(database),
    previews: previewQueries(database),
    snapshots: snapshotQueries(database),
    secrets: secretQueries(database),
    sources: sourceQueries(database),
    pulls: pullQueries(database),
    /** Runs `work` as one transaction, which is atomic even when the process is killed. */
    transaction: <T>(work: () => T): T => database.transaction(work).immediate(),
    /**
     * Resolves when all earlier commits are synced to the disk. Await it before you report a change to anybody outside.
     * @throws {Error} when the sync fails; the next call retries
     */
    synced: () => log.synced(),
    close: (): void => {
      database.close();
      log.close();
    },
  };
}
export type HostStore = ReturnType<typeof openHostStore>;
