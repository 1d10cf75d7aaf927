// Adds apps of other hosts to a snapshot, if they keep their data in the bucket: these are captured as this host's own.
// Local data of another host cannot be captured here.
import { openHostStore } from '../../../sqlite/host/index.ts';
import type { S3Place } from '../../bucket/place.ts';
import { readRecords } from '../../bucket/records/continue.ts';
import type { LeftOut } from '../store/manifest.ts';

/** What a snapshot needs to know in a Cellar of several hosts. */
export interface AmongHosts {
  /** The id of this host. */
  self: string;
  /** Whether this host has apps whose data is on its disk. */
  hasLocal: boolean;
  /** Apps whose data is on the disk of another host. */
  leftOut: LeftOut[];
}

/**
 * Adds the apps in the bucket that other hosts run to a copy of this host's database, so that it is complete.
 * @param copy the path of the copy
 * @param self the id of this host
 * @throws {Error} when the bucket does not answer
 */
export async function addAppsOfOtherHosts(copy: string, bucket: S3Place, self: string): Promise<void> {
  const records = await readRecords(bucket);
  const store = openHostStore(copy);
  try {
    const others = records.filter((record) => {
      if ('deletedApp' in record || record.preview !== null) return false;
      const { id, home = self } = record.wanted;
      // This host's database is newer than the records of its own apps. An app that it lacks is just moving to this host.
      return home !== self || store.apps.generation(id) === 0;
    });
    store.transaction(() => store.records.take(store.snapshots.cellar(), others));
    await store.synced();
  } finally {
    store.close();
  }
}
