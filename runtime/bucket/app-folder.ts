// The folder of an app's data in the bucket, as workerd's cluster lays it out: leases, objects, alarms, large values.
// Functions whose work grows with the folder run in a thread.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { filesIn } from '../../bundler/files-in.ts';
import type { Alarm, AlarmsRequest } from '../fleets/due/alarms.ts';
import { isIdOf } from '../storage/object-id.ts';
import type { S3Place } from './place.ts';
import { S3Store, SMALL_MS } from './s3-store.ts';
import { ifThere, type Stored } from './store.ts';

/** Folder of the leases of an app's processes. Copies of the app's data leave it out. */
export const LEASES = 'v1/nodes/';
/**
 * A lease lasts 20 s and is renewed every 3 s. A process whose lease has less than this left, in ms, has ended, even if
 * the hosts' clocks differ a little.
 */
const ALIVE_MS = 10_000;

/** Whether the process with a lease still renews it. @param expiresMs from the lease, in ms since 1970 */
export function isRenewed(expiresMs: number): boolean {
  return expiresMs - Date.now() > ALIVE_MS;
}

export const OBJECTS = 'v1/do/';
export const ALARMS = 'v1/alarms/';
/** Matches `v1/do/<namespace>/<object id>/…`, and captures the object's id. */
export const OBJECT = /^v1\/do\/[^/]+\/([0-9a-f]{64})\//;
export const LARGE_VALUES = 'v1/services/kv/';
/** Matches `v1/services/kv/<object id>/…`, and captures the object's id. */
export const LARGE_VALUE = /^v1\/services\/kv\/([0-9a-f]{64})\//;
/** Matches `v1/alarms/<process>/k<time in ms, hexadecimal>/<namespace>/<object id>/…`. The content is the object's name. */
export const ALARM = /^v1\/alarms\/[^/]+\/k([0-9a-f]+)\/[^/]+\/([0-9a-f]{64})\//;
/** Maximum concurrent calls of `work` in one call of `each`. */
const AT_ONCE = 16;
/** Maximum attempts to read a consistent list of alarms. */
const ROUNDS = 5;
/** Maximum alarms of a namespace whose names one call of `readStoredAlarms` reads. */
const MOST_NAMES = 1_000;

export interface AppFolder {
  place: S3Place;
  appId: string;
}

/** Returns the name of the folder of an app's data, without the bucket's prefix. The name ends with `/`. */
export function folderOf(appId: string): string {
  return `apps/${appId}/data/`;
}

/** Returns the name of the folder of the app's R2 objects, as `folderOf` does. */
export function objectsFolderOf(appId: string): string {
  return `apps/${appId}/r2/`;
}

/** Returns a store whose names are relative to the folder of the app's data. */
export function openFolder({ place, appId }: AppFolder, options?: { deadlineMs: number }): S3Store {
  return new S3Store({ ...place, prefix: place.prefix + folderOf(appId) }, options);
}

/** Returns a store whose names are relative to the folder of the app's R2 objects. */
export function openObjectsFolder({ place, appId }: AppFolder): S3Store {
  return new S3Store({ ...place, prefix: place.prefix + objectsFolderOf(appId) });
}

/** Maximum objects of a namespace that a caller of `listObjects` accepts. */
export const MOST_LISTED = 2_000;

/** Which objects of a namespace to list: `all` (the first `MOST_LISTED` + 1), some ids, or a page of sorted ids. */
export type ListedObjects = 'all' | string[] | { after: string | null; limit: number };

export interface ObjectList {
  /** Number of objects in the namespace. `listed` may have fewer. */
  count: number;
  /** Bytes of all objects of the namespace; for KV, large values included. */
  bytes: number;
  /** The bytes of each listed object, by id. */
  listed: Record<string, number>;
}

/** Lists objects of namespaces. The keys of `asked` and of the result are the namespaces' unique keys. */
export async function listObjects(
  folder: AppFolder,
  asked: Record<string, ListedObjects>,
): Promise<Record<string, ObjectList>> {
  const sizes = new Map<string, number>();
  const store = openFolder(folder);
  for (const [prefix, pattern] of [
    [OBJECTS, OBJECT],
    [LARGE_VALUES, LARGE_VALUE],
  ] as const) {
    for (const { name, bytes } of await store.list(prefix)) {
      const id = pattern.exec(name)?.[1];
      if (id !== undefined) sizes.set(id, (sizes.get(id) ?? 0) + bytes);
    }
  }
  const all = [...sizes].sort(([one], [other]) => (one < other ? -1 : 1));
  return Object.fromEntries(
    Object.entries(asked).map(([key, wanted]) => {
      const own = all.filter(([id]) => isIdOf(key, id));
      const bytes = own.reduce((sum, [, size]) => sum + size, 0);
      return [key, { count: own.length, bytes, listed: Object.fromEntries(selected(own, wanted)) }];
    }),
  );
}

function selected(own: [id: string, bytes: number][], wanted: ListedObjects): [string, number][] {
  if (wanted === 'all') return own.slice(0, MOST_LISTED + 1);
  if (Array.isArray(wanted)) return own.filter(([id]) => wanted.includes(id));
  const { after, limit } = wanted;
  return own.filter(([id]) => after === null || id > after).slice(0, limit);
}

/** Returns an app's alarms. An alarm that workerd moves between processes may be listed twice. The earlier time counts. */
export async function readStoredAlarms(
  folder: AppFolder,
  { earliest, named, before }: AlarmsRequest,
): Promise<{ times: number[]; alarms: Alarm[][] }> {
  const store = openFolder(folder);
  const names = new Map<string, string>();
  for (let round = 1; ; round++) {
    const found = await listAlarms(store);
    const of = (key: string) => found.filter(({ id }) => isIdOf(key, id));
    const latest = named.map((key) =>
      of(key)
        .filter(({ time }) => time <= before)
        .sort((one, other) => other.time - one.time)
        .slice(0, MOST_NAMES),
    );
    const unnamed = latest.flat().filter(({ id }) => !names.has(id));
    await each(unnamed, async ({ id, path }) => {
      const name = await readIfThere(store, path);
      if (name !== null) names.set(id, name.toString('utf8'));
    });
    // An alarm is missing when a new process has moved it from the previous process. The next list has its new name.
    if (round < ROUNDS && unnamed.some(({ id }) => !names.has(id))) continue;
    const times = earliest.map((key) => of(key).map(({ time }) => time)).filter((all) => all.length > 0);
    return {
      times: times.map((all) => all.reduce((least, time) => Math.min(least, time))),
      alarms: latest.map((all) =>
        all.flatMap(({ id, time }) => (names.has(id) ? [{ name: names.get(id)!, time }] : [])),
      ),
    };
  }
}

async function listAlarms(store: S3Store): Promise<{ id: string; time: number; path: string }[]> {
  const found = new Map<string, { id: string; time: number; path: string }>();
  for (const { name: path } of await store.list(ALARMS)) {
    const [, hexadecimal, id] = ALARM.exec(path) ?? [];
    if (id === undefined) continue;
    const time = Number.parseInt(hexadecimal!, 16);
    if (time < (found.get(id)?.time ?? Number.POSITIVE_INFINITY)) found.set(id, { id, time, path });
  }
  return [...found.values()];
}

/** Returns the size of an app's data and R2 objects, in bytes. Keeps only one page of the list of objects in memory. */
export async function countBytes(folder: AppFolder): Promise<number> {
  let sum = 0;
  const count = async (store: S3Store) => {
    for await (const page of store.pages('')) for (const { bytes } of page) sum += bytes;
  };
  await Promise.all([count(openFolder(folder)), count(openObjectsFolder(folder))]);
  return sum;
}

/** Removes all objects of the namespaces with these unique keys. No process may use the objects. */
export async function removeObjects(folder: AppFolder, keys: string[]): Promise<void> {
  const store = openFolder(folder);
  for (const [prefix, pattern] of [
    [ALARMS, ALARM],
    [OBJECTS, OBJECT],
  ] as const) {
    const found = (await store.list(prefix)).filter(({ name }) => {
      const id = pattern.exec(name)?.at(-1);
      return id !== undefined && keys.some((key) => isIdOf(key, id));
    });
    await each(found, ({ name }) => store.remove(name));
  }
}

/** Returns the time of an app's earliest alarm, in ms since 1970; null without one. */
export async function nextAlarm(folder: AppFolder): Promise<number | null> {
  const alarms = await openFolder(folder, { deadlineMs: SMALL_MS }).list(ALARMS);
  const times = alarms.flatMap(({ name }) => ALARM.exec(name)?.[1] ?? []);
  return times
    .map((time) => Number.parseInt(time, 16))
    .reduce<number | null>((least, time) => Math.min(least ?? time, time), null);
}

/** Removes everything that an app has in the bucket. Removing it again is not an error. */
export async function removeApp({ place, appId }: AppFolder): Promise<void> {
  const store = new S3Store({ ...place, prefix: `${place.prefix}apps/${appId}/` });
  for await (const page of store.pages('')) await each(page, ({ name }) => store.remove(name));
}

/** Marker file in a directory of `replaceFolder`: contains the id of the one Durable Object to replace. */
export const ONLY = 'only';
/** Folder of the R2 objects in a directory of `replaceFolder`. No name of the app's data begins with it. */
export const R2_OBJECTS = 'r2/';

/**
 * Replaces an app's data and R2 objects by the files in a directory. With a file `ONLY`, replaces only the Durable
 * Object that the file names. May be repeated after an interruption. No process of the app may run, and the bucket
 * service must not serve it.
 */
export async function replaceFolder(folder: AppFolder, directory: string): Promise<void> {
  const only = existsSync(join(directory, ONLY)) ? readFileSync(join(directory, ONLY), 'utf8') : null;
  const files = filesIn(directory).filter((name) => name !== ONLY);
  const [objects, data] = [true, false].map((areObjects) =>
    files.filter((name) => name.startsWith(R2_OBJECTS) === areObjects),
  ) as [string[], string[]];
  const isReplaced = (name: string) => only === null || OBJECT.exec(name)?.[1] === only;
  await replaceFiles(openFolder(folder), data, (name) => join(directory, name), isReplaced);
  if (only !== null) return;
  const names = objects.map((name) => name.slice(R2_OBJECTS.length));
  await replaceFiles(openObjectsFolder(folder), names, (name) => join(directory, R2_OBJECTS, name));
}

async function replaceFiles(
  store: S3Store,
  files: string[],
  pathOf: (name: string) => string,
  isReplaced = (_name: string) => true,
): Promise<void> {
  const kept = new Set(files);
  const removed = (await store.list('')).filter(({ name }) => isReplaced(name) && !kept.has(name));
  await each(removed, ({ name }) => store.remove(name));
  await each(files, (name) => store.writeFile(name, pathOf(name)));
}

/** Lists the content of an app's data folder, without the leases. */
export async function contentOf(store: S3Store): Promise<Stored[]> {
  return (await store.list('')).filter(({ name }) => !name.startsWith(LEASES));
}

/** Returns the bytes of an object; null when the cluster has removed it meanwhile. */
export function readIfThere(store: S3Store, name: string): Promise<Buffer<ArrayBuffer> | null> {
  return ifThere(store.read(name));
}

/** Does `work` for each item, `AT_ONCE` at a time. After a failure it starts no more, waits for the rest, and rejects. */
export async function each<T>(items: readonly T[], work: (item: T) => Promise<unknown>): Promise<void> {
  const left = items.values();
  let hasFailed = false;
  const loop = async () => {
    for (const item of left) {
      if (hasFailed) return;
      await work(item).catch((error: unknown) => {
        hasFailed = true;
        throw error;
      });
    }
  };
  const ended = await Promise.allSettled(Array.from({ length: AT_ONCE }, loop));
  const failure = ended.find(({ status }) => status === 'rejected');
  if (failure !== undefined) throw (failure as PromiseRejectedResult).reason;
}
