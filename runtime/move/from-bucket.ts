// Reads what a move needs from an app's folder in the bucket. Runs in a worker thread.
import { mkdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { AlarmRow } from '../../sqlite/storage/alarms.ts';
import {
  ALARM,
  ALARMS,
  type AppFolder,
  each,
  LARGE_VALUES,
  OBJECT,
  OBJECTS,
  openFolder,
  readIfThere,
} from '../bucket/app-folder.ts';
import { isIdOf } from '../storage/object-id.ts';
import { Immovable } from './copied-objects.ts';

/** The file that names the process which owns an object. An object that never wrote has only this file. */
const OWNER = '/own.json';

export interface InBucket {
  /** Ids of objects by the unique key of their namespace. */
  objects: Record<string, string[]>;
  /** The bytes of each object in the bucket, by id. */
  bytes: Record<string, number>;
  /** Ids of the objects that have stored anything. */
  stored: string[];
  /** Alarms by the unique key of their namespace. */
  alarms: Record<string, AlarmRow[]>;
}

/**
 * Lists the objects and alarms of an app.
 * @param keys the unique keys that the app may have
 * @throws {Immovable} when an object belongs to none of these keys
 */
export async function readFolder(folder: AppFolder, keys: string[]): Promise<InBucket> {
  const store = openFolder(folder);
  const bytes: Record<string, number> = {};
  const stored = new Set<string>();
  for (const { name, bytes: size } of await store.list(OBJECTS)) {
    const id = OBJECT.exec(name)?.[1];
    if (id === undefined) continue;
    bytes[id] = (bytes[id] ?? 0) + size;
    if (!name.endsWith(OWNER)) stored.add(id);
  }
  const ids = Object.keys(bytes);
  const keyOf = new Map(ids.map((id) => [id, keys.find((key) => isIdOf(key, id))]));
  const unknown = [...keyOf].find(([, key]) => key === undefined);
  if (unknown !== undefined)
    throw new Immovable(`the app has objects of a class or Workflow that it no longer has: ${unknown[0]}`);
  const alarms = new Map<string, AlarmRow>();
  await each(await store.list(ALARMS), async ({ name: path }) => {
    const [, hexadecimal, id = ''] = ALARM.exec(path) ?? [];
    const name = keyOf.has(id) ? await readIfThere(store, path) : null;
    if (name === null) return;
    const found = { id, name: name.toString('utf8') || null, time: Number.parseInt(hexadecimal!, 16) };
    const other = alarms.get(id);
    alarms.set(id, {
      id,
      name: found.name ?? other?.name ?? null,
      time: Math.min(found.time, other?.time ?? Number.POSITIVE_INFINITY),
    });
  });
  const byKey = <Row>(rows: Iterable<Row>, idOf: (row: Row) => string) =>
    Object.fromEntries(Map.groupBy(rows, (row) => keyOf.get(idOf(row))!));
  return {
    bytes,
    stored: [...stored],
    objects: byKey(ids, (id) => id),
    alarms: byKey(alarms.values(), ({ id }) => id),
  };
}

/** Reads the large values of KV into a directory. */
export async function readLargeValues(folder: AppFolder, into: string): Promise<void> {
  const store = openFolder(folder);
  await each(await store.list(LARGE_VALUES), async ({ name }) => {
    const path = join(into, name.slice(LARGE_VALUES.length));
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await store.readFile(name, path);
  });
}
