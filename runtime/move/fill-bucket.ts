// Puts a copy of an app's data into the bucket, and compares the databases there with those of the copy.
import { existsSync } from 'node:fs';
import { mkdir, open as openFile, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { AppCluster } from '../bucket/app-cluster.ts';
import { ALARMS, each, OBJECTS } from '../bucket/app-folder.ts';
import { removeTree } from '../disk/remove.ts';
import type { StoredAlarm } from '../fleets/due/alarms.ts';
import type { Reader } from '../snapshots/take/reader.ts';
import { type OpenedObject, readOpened } from './batches.ts';
import { objectsIn } from './copied-objects.ts';
import { ascending, type FirstCopy, type writeFirstCopies } from './first-copy.ts';
import { moveThreads } from './move-threads.ts';
import { type OpeningPlace, withOpening } from './opening.ts';

const FIRST_COPY = new URL('./first-copy.ts', import.meta.url);
/** Timeout to write the files of all objects, in ms. */
const WRITE_MS = 60 * 60_000;
/** Stands for the id of a cluster member: the alarms are stored under it until the app's first process takes them over. */
const NOBODY = '0'.repeat(32);

export interface Filling {
  cluster: AppCluster;
  place: OpeningPlace;
  /** Directory with the copy of the app's data, as workerd has it on a disk: `do`, and `kv`. `fillBucket` moves `kv`. */
  copy: string;
  /** A directory on the same disk, for the files that are sent to the bucket. */
  work: string;
  /** The alarms by the unique key of their namespace. */
  alarms: Record<string, StoredAlarm[]>;
  signal: AbortSignal;
}

/**
 * Replaces what the app has in the bucket by the copy. No process of the app may run, and nothing else may use the app's
 * data in the bucket.
 * @throws {Immovable} when the copy has data that cannot be moved
 * @throws {Error} when the bucket refuses the data, or has other data afterwards
 */
export async function fillBucket(filling: Filling): Promise<void> {
  const { cluster, copy, work, place, signal } = filling;
  const objects = await storedObjects(copy);
  const keys = [...new Set(objects.map(({ key }) => key))];
  await cluster.remove();
  const folders = await namespaceFolders(filling, keys);
  const into = join(work, 'bucket');
  const copies: FirstCopy[] = objects.map(({ key, id }) => ({
    path: fileOf(copy, { key, id }),
    folder: `${OBJECTS}${folders[key]}/${id}`,
  }));
  await mkdir(into, { recursive: true, mode: 0o700 });
  await moveThreads.run<typeof writeFirstCopies>(FIRST_COPY, 'writeFirstCopies', [copies, into], {
    deadlineMs: WRITE_MS,
    signal,
  });
  if (existsSync(join(copy, 'kv'))) {
    await mkdir(join(into, 'v1/services'), { recursive: true, mode: 0o700 });
    await rename(join(copy, 'kv'), join(into, 'v1/services/kv'));
  }
  await cluster.fill(into, signal);
  await removeTree(into);
  if (keys.length > 0)
    await withOpening(place, cluster, keys, signal, (opening) =>
      readOpened(opening, place.user, objects, (reader, object, path) =>
        compare(reader, path, fileOf(copy, object)),
      ),
    );
  await writeAlarms(filling, folders);
}

/** Finds the folders of namespaces, whose names workerd chooses: it creates an object in each. */
async function namespaceFolders(
  { cluster, place, signal }: Filling,
  keys: string[],
): Promise<Record<string, string>> {
  if (keys.length === 0) return {};
  const made = await withOpening(place, cluster, keys, signal, ({ open }) => open({}, keys));
  const names = (await cluster.store.list(OBJECTS)).map(({ name }) => name.split('/'));
  return Object.fromEntries(
    keys.map((key) => {
      const folder = names.find(([, , , id]) => id === made[key])?.[2];
      if (folder === undefined) throw new Error(`workerd made no folder for ${key} in the bucket`);
      return [key, folder];
    }),
  );
}

/** @throws {Error} when workerd finds another database in the bucket than the copy has */
async function compare(reader: Reader, path: string, original: string): Promise<void> {
  const found = await reader.read({ path, kind: 'plain', size: 0, mode: 0, stamp: '' });
  if (found === null) throw new Error(`workerd does not find ${path} in the bucket`);
  const file = await openFile(original);
  try {
    let isSame = found.size === (await file.stat()).size;
    let position = 0;
    for await (const piece of found.content) {
      const own = Buffer.alloc(piece.length);
      await file.read(own, 0, own.length, position);
      isSame &&= own.equals(piece);
      position += piece.length;
    }
    if (!isSame) throw new Error(`${path} is not the same in the bucket`);
  } finally {
    await file.close();
  }
}

/** Returns the objects that have stored anything. */
async function storedObjects(copy: string): Promise<OpenedObject[]> {
  const all = Object.entries(objectsIn(join(copy, 'do'))).flatMap(([key, ids]) =>
    ids.map(async (id) => ({ key, id, name: null, bytes: (await stat(fileOf(copy, { key, id }))).size })),
  );
  return (await Promise.all(all)).filter(({ bytes }) => bytes > 0);
}

/**
 * Writes the alarms. Call it last, because a process would run them. First removes the alarms that workerd has written from
 * the databases, because these lack the objects' names.
 */
async function writeAlarms({ cluster, alarms }: Filling, folders: Record<string, string>): Promise<void> {
  await each(await cluster.store.list(ALARMS), ({ name }) => cluster.store.remove(name));
  // An alarm counts only if its object has stored it, so a namespace without stored objects has none.
  const all = Object.entries(alarms)
    .filter(([key]) => folders[key] !== undefined)
    .flatMap(([key, own]) => own.map((alarm) => ({ key, ...alarm })));
  await each(all, ({ key, id, name, time }) => {
    const path = `${ALARMS}${NOBODY}/${ascending(time)}/${folders[key]}/${id}/${ascending(1)}`;
    return cluster.store.write(path, Buffer.from(name ?? ''));
  });
  const written = (await cluster.store.list(ALARMS)).length;
  if (written !== all.length) throw new Error(`${written} of ${all.length} alarms are in the bucket`);
}

function fileOf(copy: string, { key, id }: Pick<OpenedObject, 'key' | 'id'>): string {
  return join(copy, 'do', key, `${id}.sqlite`);
}
