// Copies one app's data and code from the bucket to this machine, while nothing changes them.
import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { HostStore } from '../../sqlite/host/index.ts';
import { writeAlarms } from '../../sqlite/storage/alarms.ts';
import type { AppFolder } from '../bucket/app-folder.ts';
import type { S3Place } from '../bucket/place.ts';
import { MissingObject } from '../bucket/store.ts';
import { readRelease } from '../builds/release/release.ts';
import type { Layout } from '../disk/data-directory.ts';
import { syncFiles } from '../disk/publish.ts';
import { CRON_KEY, CRON_SECONDS_KEY, QUEUE_KEY } from '../fleets/config/bundled-services.ts';
import { PIPELINE_KEY } from '../fleets/config/pipelines/pipelines.ts';
import { workflowKey } from '../fleets/config/workflows.ts';
import { log } from '../log.ts';
import type { Reader } from '../snapshots/take/reader.ts';
import { emptyNames, type StorageNames } from '../storage/names.ts';
import type { Buckets } from '../storage/r2/buckets.ts';
import { type OpenedObject, readOpened } from './batches.ts';
import { Immovable, METADATA, objectsIn } from './copied-objects.ts';
import type { Copying } from './copy-to-bucket.ts';
import type { InBucket, readFolder, readLargeValues } from './from-bucket.ts';
import { moveThreads } from './move-threads.ts';
import { preparedObjects, prepareMovedData } from './moved-data.ts';
import type { CopiedObjects, copyObjects, finishObjects } from './objects-from-bucket.ts';
import { withOpening } from './opening.ts';

const FROM_BUCKET = new URL('./from-bucket.ts', import.meta.url);
const OBJECTS = new URL('./objects-from-bucket.ts', import.meta.url);
const READ_MS = 60 * 60_000;
/** Timeout of one call for R2 objects, in ms: a call ends only after a batch of objects, which may be large. */
const OBJECTS_MS = 4 * 60 * 60_000;
/** How often the progress of R2 objects is logged, in ms. */
const PROGRESS_MS = 10_000;
/** Number of newest successful releases that are copied, besides the live one, so that a rollback to them is possible. */
const RELEASES = 6;
const SERVICES = ['D1Database', 'KVNamespace', QUEUE_KEY, CRON_KEY, CRON_SECONDS_KEY, PIPELINE_KEY];

export interface DiskCopyOptions {
  paths: Layout;
  store: HostStore;
  buckets: Buckets;
  place: S3Place;
}

/**
 * Copies one app's data and code to this machine. Nothing uses the copy before the host's database has the app's new place.
 * @throws {Immovable} when the app has data that cannot be moved; {Error} when a copy fails
 */
export async function copyToDisk(
  { paths, store, buckets, place: s3 }: DiskCopyOptions,
  { app, place, opening, objectBytes, signal }: Copying,
): Promise<void> {
  const { id, preview, liveDeployId } = app;
  const { cluster, code } = place;
  await cluster.finishImport();
  if (preview === null) await code.repository.during(async () => {});
  for (const deployId of new Set([liveDeployId, ...store.deploys.successful(id, RELEASES)]))
    if (deployId !== null)
      await code.releases.load(deployId).catch((error: unknown) => {
        if (!(error instanceof MissingObject) || deployId === liveDeployId) throw error;
      });
  const folder = { place: s3, appId: id };
  const job = { deadlineMs: READ_MS, errors: [Immovable], signal };
  const release = liveDeployId === null ? null : await readRelease(paths.release(id, liveDeployId));
  const names = { ...emptyNames(), ...(store.apps.storageNames(id) as Partial<StorageNames>) };
  const keys = [
    ...SERVICES,
    ...[names.classes, names.formerClasses].flatMap((all) => Object.values(all).map((each) => each.id)),
    ...Object.keys(names.deletedClasses ?? {}),
    ...(release?.classes ?? []).map(({ storageId }) => storageId),
    ...(release?.workflows ?? []).map(({ name }) => workflowKey(name)),
  ];
  const found = await moveThreads.run<typeof readFolder>(FROM_BUCKET, 'readFolder', [folder, keys], job);
  const into = await prepareMovedData(paths, id, 'local');
  await moveThreads.run<typeof readLargeValues>(
    FROM_BUCKET,
    'readLargeValues',
    [folder, join(into, 'kv')],
    job,
  );
  const own = Object.keys(found.objects);
  const stored = new Set(found.stored);
  if (own.length > 0)
    await withOpening(opening, cluster, own, signal, async (opened) => {
      await readOpened(opened, opening.user, openedObjects(found), async (reader, { id }, path) => {
        const isFound = await readObject(reader, path, join(into, 'do'));
        if (!isFound && stored.has(id)) throw new Error(`workerd did not read ${path} from the bucket`);
      });
      // Throws for facets of objects, which cannot be moved.
      objectsIn(opened.directory);
    });
  for (const [key, alarms] of Object.entries(found.alarms)) {
    const file = join(into, 'do', key, METADATA);
    await mkdir(dirname(file), { recursive: true, mode: 0o700 });
    writeAlarms(file, alarms);
  }
  await syncFiles(into);
  await buckets.moveIn(id);
  // Ends the writes to R2 objects that the stopped process has begun.
  await buckets.forget(id);
  const progress = { app: app.wanted.slug, of: objectBytes };
  await objectsToDisk(folder, preparedObjects(paths, id), progress, signal);
}

/** Copies R2 objects. @throws {Error} when one cannot be read, or its copy differs */
async function objectsToDisk(
  folder: AppFolder,
  into: string,
  progress: { app: string; of: number },
  signal: AbortSignal,
): Promise<void> {
  const job = { deadlineMs: OBJECTS_MS, signal };
  let bytes = 0;
  for (let after: string | null = ''; after !== null; ) {
    const copied: CopiedObjects = await moveThreads.run<typeof copyObjects>(
      OBJECTS,
      'copyObjects',
      [folder, into, after, PROGRESS_MS],
      job,
    );
    bytes += copied.bytes;
    after = copied.next;
    if (after !== null) log('info', 'R2 objects are copied to this machine', { ...progress, bytes });
  }
  await moveThreads.run<typeof finishObjects>(OBJECTS, 'finishObjects', [folder, into], job);
}

function openedObjects({ objects, bytes, alarms }: InBucket): OpenedObject[] {
  const names = new Map(Object.values(alarms).flatMap((all) => all.map(({ id, name }) => [id, name])));
  return Object.entries(objects).flatMap(([key, ids]) =>
    ids.map((id) => ({ key, id, name: names.get(id) ?? null, bytes: bytes[id] ?? 0 })),
  );
}

/**
 * Copies an object's database and its write-ahead log below `into`. No other process changes them meanwhile. An object that
 * never wrote has no database.
 * @returns whether there is a database
 */
async function readObject(reader: Reader, path: string, into: string): Promise<boolean> {
  let isFound = false;
  for (const file of [path, `${path}-wal`]) {
    const found = await reader.read({ path: file, kind: 'plain', size: 0, mode: 0, stamp: '' });
    if (found === null) continue;
    isFound = true;
    await mkdir(dirname(join(into, file)), { recursive: true, mode: 0o700 });
    await pipeline(Readable.from(found.content), createWriteStream(join(into, file), { mode: 0o600 }));
  }
  return isFound;
}
