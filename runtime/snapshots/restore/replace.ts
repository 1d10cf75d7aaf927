// Replaces an app's storage, or one of its D1 databases, by that of a snapshot, while all other apps run.
import { existsSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { Apps } from '../../apps/apps.ts';
import { ONLY } from '../../bucket/app-folder.ts';
import type { Layout } from '../../disk/data-directory.ts';
import type { DiskWatch } from '../../disk/disk-watch.ts';
import { changeOwner } from '../../isolation/rights.ts';
import type { AppUsers } from '../../isolation/users.ts';
import { Refusal } from '../../refusal.ts';
import type { StorageNames } from '../../storage/names.ts';
import { objectId } from '../../storage/object-id.ts';
import type { Buckets } from '../../storage/r2/buckets.ts';
import { NotThere } from '../errors.ts';
import type { Snapshots } from '../snapshots.ts';
import type { Head } from '../store/manifest.ts';
import type { Which } from './find.ts';
import { abandonMoves, type Move, moveAll } from './moves.ts';
import { databaseFile, keptElsewhere } from './storage.ts';

export interface ReplaceOptions {
  apps: Apps;
  snapshots: Snapshots;
  paths: Layout;
  disk: Pick<DiskWatch, 'floorMb'>;
  storageNames: (appId: string) => Partial<StorageNames>;
  users: (appId: string) => AppUsers;
  buckets: Buckets;
}

/** What to restore. `database`: the key of one D1 database; null for all storage of the app. */
export interface Wanted {
  snapshot: Which;
  app: string;
  database: string | null;
}

/** File in an app's data that caches which migrations are applied. */
const MIGRATIONS = 'migrations.json';
const HAND_OVER_TIMEOUT_MS = 60_000;
/** Unique key of the objects of D1 databases. */
const D1_KEY = 'D1Database';

/**
 * Replaces an app's storage, or one database of it. Requests wait meanwhile. The old storage is then in a new snapshot, and
 * in the trash for a week. The app's code, variables and repository stay as they are.
 * @returns the restored snapshot, and the id of the new one, which is null when the old storage could not be read
 * @throws {NotThere}, {Unusable}, {NoRoom}, {Refusal} during a move of the app; then nothing has changed
 */
export async function replaceStorage(
  options: ReplaceOptions,
  wanted: Wanted,
): Promise<{ restored: Head; before: string | null }> {
  const { apps, snapshots, paths, disk } = options;
  const { snapshot, app, database } = wanted;
  const { changes } = apps.require(apps.originOf(app));
  const work = join(paths.restoring, `${app}-${Date.now()}`);
  const only = restoredObject(options.storageNames(app), database);
  const into = { directory: work, floorMb: disk.floorMb };
  const { head: from } = await snapshots.extract({ snapshot, app, only, into });
  try {
    const { head, unread } = await snapshots.take(`before a restore of ${apps.get(app)?.wanted.slug ?? app}`);
    if (!changes.isOpen)
      throw new Refusal(
        409,
        'transition_conflict',
        'The app is being moved: restore it when the move has ended',
      );
    // A move of the app waits meanwhile.
    await changes.during(() => replace(options, { snapshot: from.id, app, only, work }));
    return { restored: from, before: unread.includes(app) ? null : head.id };
  } finally {
    abandonMoves(work);
  }
}

/** Replaces an app's storage by the extracted files in `work`. `only`: the id of the one object to replace; null: all. */
async function replace(
  { apps, paths, users, buckets }: ReplaceOptions,
  { snapshot, app, only, work }: { snapshot: string; app: string; only: string | null; work: string },
): Promise<void> {
  const [data, files] = [paths.data(app), join(work, 'data')];
  // An app without storage in the snapshot has empty storage afterwards.
  for (const name of ['data', ...(only === null && buckets.has(app) ? ['buckets'] : [])])
    mkdirSync(join(work, name), { recursive: true, mode: 0o700 });
  const cluster = apps.clusterOf(app);
  const restored = join(work, 'importing');
  assertSameStorage({ snapshot, app }, cluster !== null, { restored, files });
  if (cluster !== null) {
    mkdirSync(restored, { recursive: true, mode: 0o700 });
    if (only !== null) writeFileSync(join(restored, ONLY), only);
  }
  const { cell } = users(app);
  if (cell !== null) {
    const theirs = readdirSync(files, { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const directories = theirs.map(({ name }) => join(files, name));
    await changeOwner(directories, cell, HAND_OVER_TIMEOUT_MS);
  }
  const aside = join(paths.trash, `${app}-${Date.now()}`);
  await apps.replaceStorage(app, async () => {
    // An earlier restore may not be in the bucket yet. If it cannot be finished, nothing has changed.
    await cluster?.finishImport();
    const imported = { from: restored, to: paths.importing(app), aside: join(aside, 'importing') };
    if (only !== null) {
      // With data in the bucket, the disk has only a cache of it. These moves clear the cache.
      const copies = { from: join(data, 'do'), to: join(aside, 'do'), aside: null };
      const known = { from: join(data, MIGRATIONS), to: join(aside, MIGRATIONS), aside: null };
      moveAll(
        work,
        cluster ? [copies, known, imported] : databaseMoves(files, data, databaseFile(only), aside),
      );
      return cluster?.finishImport();
    }
    // Closes the files of R2 objects, so that they can be moved. The next request opens them again.
    await buckets.forget(app);
    moveAll(work, [
      { from: files, to: data, aside: join(aside, 'data') },
      { from: join(work, 'buckets'), to: paths.buckets(app), aside: join(aside, 'buckets') },
      ...(cluster ? [imported] : []),
    ]);
    await cluster?.finishImport();
  });
}

/** @throws {Unusable} when the app's data has moved between the bucket and this machine since the snapshot */
function assertSameStorage(
  { snapshot, app }: { snapshot: string; app: string },
  isInBucket: boolean,
  { restored, files }: { restored: string; files: string },
): void {
  const isEmpty = (path: string) => !existsSync(path) || readdirSync(path).length === 0;
  if (isEmpty(isInBucket ? files : restored)) return;
  throw keptElsewhere({ snapshot, app }, isInBucket);
}

/** Returns the id of a database's object; null for all storage. @throws {NotThere} when the app has no such database */
export function restoredObject({ databases = {} }: Partial<StorageNames>, key: string | null): string | null {
  if (key === null) return null;
  const id = Object.hasOwn(databases, key) ? databases[key]! : null;
  if (id === null) throw new NotThere(`the app has no database ${key}`);
  return objectId(D1_KEY, id);
}

/**
 * Returns the moves that replace one database. SQLite's files beside it, and the cache of applied migrations, belong to the
 * old database: they are moved away.
 */
function databaseMoves(files: string, data: string, file: string, aside: string): Move[] {
  // The app is stopped, but its processes may have left symbolic links that lead elsewhere.
  for (const path of [join(data, dirname(dirname(file))), join(data, dirname(file))])
    if (!lstatSync(path).isDirectory()) throw new Error(`${path} is not a directory`);
  const away = ['-wal', '-shm', '-journal'].map((suffix) => `${file}${suffix}`);
  return [
    ...[...away, MIGRATIONS].map((name) => ({
      from: join(data, name),
      to: join(aside, name),
      aside: null,
    })),
    { from: join(files, file), to: join(data, file), aside: join(aside, file) },
  ];
}
