// The store of snapshots that the settings name.
import type { Config } from '../../config.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { DirectoryStore } from './directory-store.ts';
import { type S3Place, S3Store } from './s3-store.ts';
import type { Store } from './store.ts';

/** Names the store to open. It is sent to the snapshot process as JSON. */
export type StorePlace = { directory: string } | { s3: S3Place };

type Settings = Pick<
  Config,
  | 'RUNNER_SNAPSHOT_URL'
  | 'RUNNER_SNAPSHOT_ENDPOINT'
  | 'RUNNER_SNAPSHOT_REGION'
  | 'RUNNER_SNAPSHOT_ACCESS_KEY'
  | 'RUNNER_SNAPSHOT_SECRET_KEY'
>;

/** Returns the store in the settings; by default, a directory in the data directory. */
export function storePlace(settings: Settings, paths: Layout): StorePlace {
  const url = settings.RUNNER_SNAPSHOT_URL;
  if (!url.startsWith('s3:')) return { directory: url || paths.snapshots };
  const [bucket = '', ...folders] = url.slice('s3://'.length).split('/').filter(Boolean);
  const region = settings.RUNNER_SNAPSHOT_REGION;
  return {
    s3: {
      endpoint: settings.RUNNER_SNAPSHOT_ENDPOINT || `https://s3.${region}.amazonaws.com`,
      region,
      bucket,
      prefix: folders.map((folder) => `${folder}/`).join(''),
      accessKey: settings.RUNNER_SNAPSHOT_ACCESS_KEY,
      secretKey: settings.RUNNER_SNAPSHOT_SECRET_KEY,
    },
  };
}

export function openStore(place: StorePlace): Store {
  return 's3' in place ? new S3Store(place.s3) : new DirectoryStore(place.directory);
}
