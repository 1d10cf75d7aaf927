// Copies an app's storage while the app runs, for a preview or `cellar dev --remote-data`. Each database is consistent in
// itself. The databases are read one after another.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { S3Place } from '../../bucket/place.ts';
import { layout } from '../../disk/data-directory.ts';
import { extract } from '../restore/extract.ts';
import { placesOf } from '../restore/storage.ts';
import { PackWriter } from '../store/packs.ts';
import { openStore } from '../store/place.ts';
import { Capture, type CapturedApp, type HoldBuckets } from './capture.ts';

export interface CopyJob {
  kind: 'copy';
  /** The data directory. */
  root: string;
  app: CapturedApp;
  /** Whether R2 objects on this machine are copied too. */
  hasBuckets: boolean;
  /** Where apps in the bucket have their data; null without a bucket. */
  bucket: S3Place | null;
  /** The target directory, with `data`, `buckets` and `importing` in it. */
  into: string;
}

export interface Copied {
  files: number;
}

/** Copies an app's storage into the directory `into`. @throws {Error} then `into` does not exist */
export async function copyStorage(
  { root, app, hasBuckets, bucket, into }: CopyJob,
  holdBuckets: HoldBuckets,
): Promise<Copied> {
  const paths = layout(root);
  const directory = join(paths.snapshotting, 'copied');
  rmSync(directory, { recursive: true, force: true });
  try {
    const store = openStore({ directory });
    const packs = new PackWriter(store, []);
    const files = await new Capture({ paths, packs, bucket, holdBuckets, before: [] }).storage(
      app,
      hasBuckets,
    );
    await packs.finish();
    const placeOf = placesOf(paths, app.id);
    await extract(store, files, into, (file) => placeOf(file)!);
    return { files: files.length };
  } catch (error) {
    rmSync(into, { recursive: true, force: true });
    throw error;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
