// Removes the folders of deleted apps whose host was lost before it could remove them.
import type { DeletedApp } from '../../../sqlite/host/app-records.ts';
import { log, reason } from '../../log.ts';
import { each } from '../app-folder.ts';
import type { S3Store } from '../s3-store.ts';
import { ifThere } from '../store.ts';
import { deletedNameOf, RECORDS } from './app-records.ts';

/** How long a removal by the app's own host must be overdue before another host does it, in ms. */
const LATE_MS = 24 * 3_600_000;
/** Only records with fewer bytes than this are read. Those of deleted apps have about half as many, others more. */
const DELETED_BYTES = 256;

export interface AbandonedFoldersOptions {
  store: Pick<S3Store, 'list' | 'read' | 'remove'>;
  /** Resolves when the bucket may be used. */
  ready: () => Promise<void>;
  /** Removes the folder of an app from the bucket. */
  remove: (appId: string) => Promise<void>;
}

/**
 * Removes every folder whose removal is overdue by `LATE_MS`, and the app's records. Never rejects.
 * @param now in ms since 1970
 */
export async function removeAbandonedFolders(
  { store, ready, remove }: AbandonedFoldersOptions,
  now = Date.now(),
): Promise<void> {
  try {
    await ready();
    const small = (await store.list(RECORDS)).filter(({ bytes }) => bytes < DELETED_BYTES);
    await each(small, async ({ name }) => {
      const bytes = await ifThere(store.read(name));
      // Another host has removed it since it was listed.
      if (bytes === null) return;
      const record = JSON.parse(bytes.toString('utf8')) as Partial<DeletedApp>;
      const { deletedApp, removeAt } = record;
      if (deletedApp === undefined || removeAt === undefined) return;
      if (!(Date.parse(removeAt) + LATE_MS <= now)) return;
      await remove(deletedApp);
      await store.remove(deletedNameOf(deletedApp));
      await store.remove(name);
      log(
        'info',
        'the data of a deleted app was removed from the bucket; the host that deleted the app is lost',
        { app: deletedApp },
      );
    });
  } catch (error) {
    log('warn', 'folders of deleted apps may still be in the bucket; Cellar tries again in an hour', {
      error: reason(error),
    });
  }
}
