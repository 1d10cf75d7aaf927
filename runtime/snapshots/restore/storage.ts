// Extracts one app's storage from a snapshot. The host then moves it into the place of the app's own.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { OBJECT } from '../../bucket/app-folder.ts';
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
  /** The id of the one object to restore, which is a database; null: all of them, and its buckets. */
  only: string | null;
  /** The target directory, with `data`, `buckets` and `importing` in it. */
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
  const isWanted = (place: string | null) => place !== null && (only === null || isOfDatabase(place, only));
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

/** Whether a file is the database's own, on the disk or in the bucket. */
function isOfDatabase(place: string, id: string): boolean {
  return (
    place === join('data', databaseFile(id)) || OBJECT.exec(place.replace(/^importing\//, ''))?.[1] === id
  );
}

/** Returns the file of a database, below the app's data. */
export function databaseFile(id: string): string {
  return join('do', 'D1Database', `${id}.sqlite`);
}

/** Returns a function that maps a file of an app's storage to its path in `data`, `buckets` or `importing`; null for any other file. */
export function placesOf(paths: Layout, app: string): (file: FileEntry) => string | null {
  const folders = { data: paths.data(app), buckets: paths.buckets(app), importing: paths.importing(app) };
  const prefixes = Object.entries(folders).map(([name, path]) => [
    `${path.slice(paths.root.length + 1)}/`,
    name,
  ]);
  return ({ path }) => {
    const [prefix, name] = prefixes.find(([prefix]) => path.startsWith(prefix!)) ?? [];
    return prefix === undefined ? null : join(name!, path.slice(prefix.length));
  };
}
