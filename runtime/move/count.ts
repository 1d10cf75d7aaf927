// Counts what an app has, on this machine or in the bucket. Runs in worker threads.
import { existsSync } from 'node:fs';
import {
  type AppFolder,
  contentOf,
  LARGE_VALUE,
  OBJECT,
  openFolder,
  openObjectsFolder,
} from '../bucket/app-folder.ts';
import { VALUE_BYTES } from '../bucket/proxy/target.ts';
import { list } from '../snapshots/take/listing.ts';
import { isIdOf } from '../storage/object-id.ts';

const DATABASE_KEY = 'D1Database';
const NAMESPACE_KEY = 'KVNamespace';
const FILE = /^do\/([^/]+)\/([^/]+)$/;
const OBJECT_FILE = /^[0-9a-f]{64}\.sqlite$/;
/** Files of workerd and SQLite beside the files of objects. */
const BESIDE = /^metadata\.sqlite$|\.sqlite-(wal|shm|journal)$/;
/** Names of the records of R2 objects in the bucket. Under other names are the bytes of objects, and parts of uploads. */
const RECORD = /^[^/]+\/objects\//;

export interface Counts {
  databases: number;
  namespaces: number;
  /** All other Durable Objects, with those of queues, crons, pipelines and Workflow instances. */
  objects: number;
  r2_objects: number;
  /** Bytes of all data, KV values included. */
  bytes: number;
}

export interface Counted extends Counts {
  /** Bytes of R2 objects, which are part of `bytes`. */
  r2_bytes: number;
  /** Why the app cannot move; null: it can. */
  obstacle: string | null;
}

/** Counts an app's data on this machine, without R2 objects. */
export function countOnDisk(data: string): Counted {
  const counted: Counted = {
    databases: 0,
    namespaces: 0,
    objects: 0,
    r2_objects: 0,
    bytes: 0,
    r2_bytes: 0,
    obstacle: null,
  };
  for (const { path, kind, size } of existsSync(data)
    ? list(data, { databases: false, skip: ['alarms'] })
    : []) {
    if (kind === 'directory') continue;
    counted.bytes += size;
    if (path.startsWith('kv/') && size > VALUE_BYTES)
      counted.obstacle ??= `a KV value has ${Math.ceil(size / 2 ** 20)} MiB, and the bucket takes at most 16`;
    const [, key, name] = FILE.exec(path) ?? [];
    if (key === undefined || BESIDE.test(name!)) continue;
    if (!OBJECT_FILE.test(name!))
      counted.obstacle ??= `it has data that cannot be moved, such as facets: ${path}`;
    else if (key === DATABASE_KEY) counted.databases++;
    else if (key === NAMESPACE_KEY) counted.namespaces++;
    else counted.objects++;
  }
  return counted;
}

/** Counts an app's data in the bucket. */
export async function countInBucket(folder: AppFolder): Promise<Counted> {
  const data = await contentOf(openFolder(folder));
  const r2 = { objects: 0, bytes: 0 };
  for await (const page of openObjectsFolder(folder).pages(''))
    for (const { name, bytes } of page) {
      if (RECORD.test(name)) r2.objects++;
      r2.bytes += bytes;
    }
  const ids = new Set(
    data.flatMap(({ name }) => OBJECT.exec(name)?.[1] ?? LARGE_VALUE.exec(name)?.[1] ?? []),
  );
  const all = [...ids];
  const databases = all.filter((id) => isIdOf(DATABASE_KEY, id)).length;
  const namespaces = all.filter((id) => isIdOf(NAMESPACE_KEY, id)).length;
  return {
    ...{ databases, namespaces, objects: all.length - databases - namespaces },
    r2_objects: r2.objects,
    bytes: data.reduce((sum, { bytes }) => sum + bytes, r2.bytes),
    r2_bytes: r2.bytes,
    obstacle: null,
  };
}
