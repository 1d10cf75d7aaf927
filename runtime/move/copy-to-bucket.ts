// Copies one app's data and code from this machine into the bucket, while nothing changes them.
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { App } from '../apps/app.ts';
import type { Apps } from '../apps/apps.ts';
import type { BucketPlace } from '../apps/known/open-apps.ts';
import type { Layout } from '../disk/data-directory.ts';
import { readEveryAlarm, type StoredAlarm } from '../fleets/due/alarms.ts';
import type { Snapshots } from '../snapshots/snapshots.ts';
import { METADATA } from './copied-objects.ts';
import { fillBucket } from './fill-bucket.ts';
import { prepareMovedData } from './moved-data.ts';
import type { OpeningPlace } from './opening.ts';

export interface CopyOptions {
  paths: Layout;
  apps: Apps;
  snapshots: Snapshots;
}

export interface Copying {
  app: App;
  place: BucketPlace;
  opening: OpeningPlace;
  /** Bytes of its R2 objects. */
  objectBytes: number;
  /** An empty directory for the files of the copy. */
  work: string;
  signal: AbortSignal;
}

/**
 * Copies one app's data and code into the bucket. Nothing uses the copy before the host's database has the app's new place.
 * @throws {Immovable} when the app has data that cannot be moved; {Error} when a copy fails
 */
export async function copyToBucket(
  { paths, apps, snapshots }: CopyOptions,
  { app, place, opening, work, signal }: Copying,
): Promise<void> {
  const { id, wanted, preview, liveDeployId } = app;
  const { cluster, code } = place;
  const copy = join(work, 'copy');
  const of = { id, slug: wanted.slug, liveDeployId: null, user: opening.user, isInBucket: false };
  await snapshots.copy(of, copy, apps.ownerOf(id), signal, false);
  const alarms = await alarmsOf(paths.data(id), { owner: apps.ownerOf(id), user: opening.user, signal });
  await fillBucket({ cluster, place: opening, copy: join(copy, 'data'), work, alarms, signal });
  // Stores the repository in the bucket. Nobody can push meanwhile.
  if (preview === null) await code.repository.during(async () => {});
  if (liveDeployId !== null) await code.releases.store(liveDeployId, signal);
  await prepareMovedData(paths, id, 'bucket');
}

async function alarmsOf(
  data: string,
  of: Pick<Parameters<typeof readEveryAlarm>[1], 'owner' | 'user' | 'signal'>,
): Promise<Record<string, StoredAlarm[]>> {
  const root = join(data, 'do');
  const keys = (existsSync(root) ? readdirSync(root) : []).filter((key) =>
    existsSync(join(root, key, METADATA)),
  );
  const paths = keys.map((key) => join(root, key, METADATA));
  const read = keys.length === 0 ? [] : await readEveryAlarm(paths, { ...of, scratch: join(data, 'alarms') });
  return Object.fromEntries(keys.map((key, at) => [key, read[at]!]));
}
