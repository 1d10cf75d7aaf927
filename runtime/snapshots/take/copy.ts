// Copies an app's storage for a preview while the app runs. As in a snapshot, each database is consistent in itself.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
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
  /** The target directory, with `data` and `buckets` in it. */
  into: string;
}

export interface Copied {
  files: number;
}

/** @throws {Error} then `into` does not exist */
export async function copyStorage({ root, app, into }: CopyJob, holdBuckets: HoldBuckets): Promise<Copied> {
  const paths = layout(root);
  const directory = join(paths.snapshotting, 'copied');
  rmSync(directory, { recursive: true, force: true });
  try {
    const store = openStore({ directory });
    const packs = new PackWriter(store, []);
    const files = await new Capture(paths, packs, holdBuckets, []).storage(app);
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
