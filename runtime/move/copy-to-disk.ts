// Copies one app's data and code from the bucket to this machine, while nothing changes them.
import { createWriteStream } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { HostStore } from '../../sqlite/host/index.ts';
import { writeAlarms } from '../../sqlite/storage/alarms.ts';
import type { S3Place } from '../bucket/place.ts';
import { MissingObject } from '../bucket/store.ts';
import { readRelease } from '../builds/release/release.ts';
import type { Layout } from '../disk/data-directory.ts';
import { syncFiles } from '../disk/publish.ts';
import { CRON_KEY, QUEUE_KEY } from '../fleets/config/bundled-services.ts';
import { workflowKey } from '../fleets/config/workflows.ts';
import { Reader } from '../snapshots/take/reader.ts';
import { emptyNames, type StorageNames } from '../storage/names.ts';
import { threads } from '../threads/worker.ts';
import { Immovable, METADATA, objectsIn } from './copied-objects.ts';
import type { Copying } from './copy-to-bucket.ts';
import type { InBucket, readFolder, readLargeValues } from './from-bucket.ts';
import { prepareMovedData } from './moved-data.ts';
import { type Opening, withOpening } from './opening.ts';

const FROM_BUCKET = new URL('./from-bucket.ts', import.meta.url);
const READ_MS = 60 * 60_000;
/** Objects that are opened at once. */
const AT_ONCE = 64;
/** Releases that can be rolled back to, and the live one. */
const RELEASES = 6;
const SERVICES = ['D1Database', 'KVNamespace', QUEUE_KEY, CRON_KEY];

/** What the copy needs of the host. */
export interface DiskCopyOptions {
  paths: Layout;
  store: HostStore;
  /** The bucket. */
  place: S3Place;
}

/** The disk has no data of the app before the database says that it has moved. @throws {Immovable}; {Error} when a copy fails */
export async function copyToDisk(
  { paths, store, place: s3 }: DiskCopyOptions,
  { app, place, opening, signal }: Copying,
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
  const found = await threads.run<typeof readFolder>(FROM_BUCKET, 'readFolder', [folder, keys], job);
  const into = await prepareMovedData(paths, id, 'local');
  await threads.run<typeof readLargeValues>(FROM_BUCKET, 'readLargeValues', [folder, join(into, 'kv')], job);
  const own = Object.keys(found.objects);
  if (own.length > 0)
    await withOpening(opening, cluster, own, signal, (opened) =>
      readObjects(opened, found, opening.user, join(into, 'do')),
    );
  for (const [key, alarms] of Object.entries(found.alarms))
    writeAlarms(join(into, 'do', key, METADATA), alarms);
  await syncFiles(into);
}

async function readObjects(
  opening: Opening,
  { objects, alarms }: InBucket,
  user: Copying['opening']['user'],
  into: string,
): Promise<void> {
  const names = new Map(
    Object.values(alarms).flatMap((all) =>
      all.flatMap(({ id, name }) => (name === null ? [] : [[id, name]])),
    ),
  );
  const all = Object.entries(objects).flatMap(([key, ids]) => ids.map((id) => ({ key, id })));
  let reader: Reader | null = null;
  try {
    for (let from = 0; from < all.length; from += AT_ONCE) {
      const some = all.slice(from, from + AT_ONCE);
      const asked = Map.groupBy(some, ({ key }) => key);
      await opening.open(
        Object.fromEntries([...asked].map(([key, of]) => [key, of.map(({ id }) => names.get(id) ?? { id })])),
      );
      objectsIn(opening.directory);
      reader ??= await Reader.start({
        root: opening.directory,
        user,
        copy: join(dirname(opening.directory), 'copy'),
      });
      for (const { key, id } of some) await readObject(reader, `${key}/${id}.sqlite`, into);
    }
  } finally {
    reader?.end();
  }
}

/** Reads a database and its log, which no other process changes. An object that never wrote has none. */
async function readObject(reader: Reader, path: string, into: string): Promise<void> {
  for (const file of [path, `${path}-wal`]) {
    const found = await reader.read({ path: file, kind: 'plain', size: 0, mode: 0, stamp: '' });
    if (found === null) continue;
    await mkdir(dirname(join(into, file)), { recursive: true, mode: 0o700 });
    await pipeline(Readable.from(found.content), createWriteStream(join(into, file), { mode: 0o600 }));
  }
}
