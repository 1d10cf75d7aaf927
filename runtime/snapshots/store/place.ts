// The store of snapshots that the settings name.
import { bucketPlace, type S3Place, s3Place } from '../../bucket/place.ts';
import { S3Store } from '../../bucket/s3-store.ts';
import type { Config } from '../../config.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { DirectoryStore } from './directory-store.ts';
import { SnapshotStore } from './snapshot-store.ts';

/** Names the store to open, and the keys of its snapshots. It is sent to the snapshot process as JSON. */
export type StorePlace = Place & { keys?: readonly string[] };

type Place = { directory: string } | { s3: S3Place };

/** Returns the store that the settings name. Default: a folder in Cellar's bucket, else one in the data directory. */
export function storePlace(settings: Config, paths: Layout): StorePlace {
  return { ...placeOf(settings, paths), keys: settings.RUNNER_SNAPSHOT_KEY };
}

function placeOf(settings: Config, paths: Layout): Place {
  const url = settings.RUNNER_SNAPSHOT_URL;
  const bucket = url === '' ? bucketPlace(settings) : null;
  if (bucket !== null) return { s3: { ...bucket, prefix: `${bucket.prefix}snapshots/` } };
  if (!url.startsWith('s3:')) return { directory: url || paths.snapshots };
  return {
    s3: s3Place(url, {
      endpoint: settings.RUNNER_SNAPSHOT_ENDPOINT,
      region: settings.RUNNER_SNAPSHOT_REGION,
      accessKey: settings.RUNNER_SNAPSHOT_ACCESS_KEY,
      secretKey: settings.RUNNER_SNAPSHOT_SECRET_KEY,
    }),
  };
}

/** @param floorMb MiB that writes to a directory must leave free on its disk; null: no limit */
export function openStore(place: StorePlace, floorMb: number | null = null): SnapshotStore {
  const store = 's3' in place ? new S3Store(place.s3) : new DirectoryStore(place.directory, floorMb);
  return new SnapshotStore(store, place.keys ?? []);
}
