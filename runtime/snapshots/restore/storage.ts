// Extracts one app's storage from a snapshot. The host then moves it into the place of the app's own.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { type Layout, layout } from '../../disk/data-directory.ts';
import { Damaged, NotThere, Unusable } from '../errors.ts';
import { type FileEntry, type Head, readManifest } from '../store/manifest.ts';
import { openStore, type StorePlace } from '../store/place.ts';
import { extract } from './extract.ts';

export interface RestoreJob {
  kind: 'restore';
  /** The data directory. */
  root: string;
  store: StorePlace;
  /** Id of this Cellar: snapshots of another one are refused. */
  of: string;
  snapshot: string;
  app: string;
  /** The one file to restore, below the app's data; null: all of them, and its buckets. */
  only: string | null;
  /** The target directory, with `data` and `buckets` in it. */
  into: string;
}

export interface Restored {
  head: Head;
  files: number;
}

/** @throws {NotThere}, {Unusable}; then `into` does not exist */
export async function restoreStorage({
  root,
  store: place,
  of,
  snapshot,
  app,
  only,
  into,
}: RestoreJob): Promise<Restored> {
  const store = openStore(place);
  const { head, parts } = await readManifest(store, snapshot);
  if (head.of !== of)
    throw new Unusable(`snapshot ${snapshot} is of another Cellar (${head.of}, this one is ${of})`);
  const part = parts.find(({ id }) => id === app);
  if (part === undefined) throw new NotThere(`snapshot ${snapshot} has no app ${app}`);
  const paths = layout(root);
  const placeOf = placesOf(paths, app);
  const isWanted = (place: string | null) =>
    place !== null && (only === null || place === join('data', only));
  const files = part.files.filter((file) => isWanted(placeOf(file)));
  if (only !== null && files.length === 0)
    throw new NotThere(`snapshot ${snapshot} has no such database of the app`);
  try {
    await extract(store, files, into, (file) => placeOf(file)!);
  } catch (error) {
    rmSync(into, { recursive: true, force: true });
    if (!(error instanceof Damaged)) throw error;
    throw new Damaged(
      `snapshot ${snapshot} cannot restore the app ${part.slug}: ${error.message}. Restore another snapshot; \`cellar snapshots verify\` lists those that are damaged`,
    );
  }
  return { head, files: files.length };
}

/** Returns a function that maps a file of an app's storage to its path in `data` or `buckets`; null for any other file. */
export function placesOf(paths: Layout, app: string): (file: FileEntry) => string | null {
  const folders = { data: paths.data(app), buckets: paths.buckets(app) };
  const prefixes = Object.entries(folders).map(([name, path]) => [
    `${path.slice(paths.root.length + 1)}/`,
    name,
  ]);
  return ({ path }) => {
    const [prefix, name] = prefixes.find(([prefix]) => path.startsWith(prefix!)) ?? [];
    return prefix === undefined ? null : join(name!, path.slice(prefix.length));
  };
}
