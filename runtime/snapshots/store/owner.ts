// Records in a store which Cellar owns it.

import { ifThere, type Store } from '../../bucket/store.ts';
import { Unusable } from '../errors.ts';

const OWNER = 'cellar.json';

/** Who uses the store. */
export interface StoreOwner {
  /** Id of this Cellar. */
  of: string;
  /** The directory of the store if this Cellar has used it before, and it may be on a disk that is not mounted; else null. */
  claimed: string | null;
}

/**
 * Claims the store for this Cellar.
 * @throws {Unusable} when another Cellar has it, or when it was claimed before and no longer records an owner
 */
export async function requireOwn(store: Store, { of, claimed }: StoreOwner): Promise<void> {
  const found = await ifThere(store.read(OWNER));
  // A write to the mount point of a missing disk would fill the disk of the system.
  if (found === null && claimed !== null)
    throw new Unusable(
      `${claimed} has no ${OWNER}: is its disk mounted? If it is a new or emptied one, set RUNNER_SNAPSHOT_URL to another directory on it`,
    );
  if (found === null) return store.write(OWNER, Buffer.from(`${JSON.stringify({ cellar: of })}\n`));
  const { cellar } = JSON.parse(found.toString('utf8')) as { cellar: string };
  if (cellar !== of)
    throw new Unusable(
      `the place of snapshots has snapshots of another Cellar (${cellar}, this one is ${of}): set RUNNER_SNAPSHOT_URL to another place`,
    );
}
