// Extracts one app's storage from a snapshot. The host then moves it into the place of the app's own.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { OBJECT } from '../../bucket/app-folder.ts';
import { type Layout, layout } from '../../disk/data-directory.ts';
import { freeMegabytes } from '../../disk/disk.ts';
import { Damaged, NoRoom, NotThere, Unusable } from '../errors.ts';
import type { FileEntry, Head, Part } from '../store/manifest.ts';
import { openStore, type StorePlace } from '../store/place.ts';
import { extract } from './extract.ts';
import { findApp, type Which } from './find.ts';

const BYTES_IN_MB = 2 ** 20;

export interface RestoreJob {
  kind: 'restore';
  /** The data directory. */
  root: string;
  store: StorePlace;
  /** Id of this Cellar: snapshots of another one are refused. */
  of: string;
  snapshot: Which;
  app: string;
  /** The id of the one object to restore, which is a database; null: all objects, and the app's buckets. */
  only: string | null;
  into: Target;
}

/** Where an app's storage is extracted. */
export interface Target {
  /** On the disk of the data directory. Gets `data`, `buckets` and `importing`. */
  directory: string;
  /** Disk space that must stay free, in MiB. */
  floorMb: number;
}

export interface Restored {
  head: Head;
  files: number;
}

/** Extracts an app's storage into a directory. @throws {NotThere}, {Unusable}, {NoRoom}; then the directory does not exist */
export async function restoreStorage({
  root,
  store: place,
  of,
  snapshot,
  app,
  only,
  into: { directory, floorMb },
}: RestoreJob): Promise<Restored> {
  const store = openStore(place);
  const { head, part } = await findApp(store, of, snapshot, app);
  const paths = layout(root);
  const files = filesOf(paths, { head, part, only }, true);
  requireFreeSpace(root, [...files.values()], floorMb);
  const placeOf = placesOf(paths, app);
  try {
    await extract(store, [...files.values()], directory, (file) => placeOf(file)!);
  } catch (error) {
    rmSync(directory, { recursive: true, force: true });
    throw error instanceof Damaged ? cannotRestore(head, part, error.message) : error;
  }
  return { head, files: files.size };
}

/** Checks that the disk has space for extracted files beside the current ones. @throws {NoRoom} */
function requireFreeSpace(root: string, files: FileEntry[], floorMb: number): void {
  const neededMb = Math.ceil(files.reduce((sum, { size }) => sum + size, 0) / BYTES_IN_MB);
  const roomMb = Math.max(0, freeMegabytes(root) - floorMb);
  if (neededMb > roomMb)
    throw new NoRoom(
      `the restore needs ${neededMb} MiB of disk space, and ${roomMb} MiB are available: ${floorMb} MiB must stay free (RUNNER_DISK_FLOOR_MB); free disk space`,
    );
}

/**
 * Returns the files of an app's storage, by their path below `data`, `buckets` or `importing`.
 * @param only the id of the one object that is wanted; null: all
 * @param withDirectories whether to return directories too
 * @throws {NotThere} when the snapshot has no such object, unless `mayBeEmpty`
 */
export function filesOf(
  paths: Layout,
  {
    head,
    part,
    only,
    mayBeEmpty = false,
  }: { head: Head; part: Part; only: string | null; mayBeEmpty?: boolean },
  withDirectories = false,
): Map<string, FileEntry> {
  const placeOf = placesOf(paths, part.id);
  const files = new Map<string, FileEntry>();
  for (const file of part.files) {
    const place = placeOf(file);
    if (place === null || !(only === null || isOfDatabase(place, only))) continue;
    if (withDirectories || !place.endsWith('/')) files.set(place, file);
  }
  if (only !== null && files.size === 0 && !mayBeEmpty)
    throw new NotThere(`snapshot ${head.id} has no such database of the app`);
  return files;
}

/** Returns the error of a damaged snapshot. */
export function cannotRestore({ id }: Head, { slug }: Part, why: string): Damaged {
  return new Damaged(
    `snapshot ${id} cannot restore the app ${slug}: ${why}. Restore another snapshot; \`cellar snapshots verify\` lists those that are damaged`,
  );
}

/**
 * Returns the error for an app whose data has moved between the bucket and this machine since the snapshot.
 * @param isInBucket whether the bucket has the data today
 */
export function keptElsewhere(
  { snapshot, app }: { snapshot: string; app: string },
  isInBucket: boolean,
): Unusable {
  const [then, now] = isInBucket
    ? ['on this machine', 'in the bucket']
    : ['in the bucket', 'on this machine'];
  return new Unusable(`in snapshot ${snapshot} the data of app ${app} was ${then}, and it is ${now} today`);
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

/** Returns a function that maps a file to its path below `data`, `buckets` or `importing`; null for other files. */
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
