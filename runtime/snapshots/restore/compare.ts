// Finds out what a restore of an app's storage would change, and changes nothing.
import type { StorageChange } from '../../../handlers/contract/admin.ts';
import type { S3Place } from '../../bucket/place.ts';
import type { Store } from '../../bucket/store.ts';
import { layout } from '../../disk/data-directory.ts';
import { reason } from '../../log.ts';
import { isIdOf } from '../../storage/object-id.ts';
import type { FileEntry, Head } from '../store/manifest.ts';
import { PackWriter, packName } from '../store/packs.ts';
import { openStore, type StorePlace } from '../store/place.ts';
import { SnapshotStore } from '../store/snapshot-store.ts';
import { Capture, type CapturedApp, type HoldBuckets } from '../take/capture.ts';
import { findApp, type Which } from './find.ts';
import { cannotRestore, filesOf, keptElsewhere } from './storage.ts';

export interface CompareJob {
  kind: 'compare';
  /** The data directory. */
  root: string;
  store: StorePlace;
  /** Id of this Cellar. */
  of: string;
  snapshot: Which;
  app: CapturedApp;
  /** The id of the one object to compare, which is a database; null: all objects, and the app's buckets. */
  only: string | null;
  storages: NamedStorage[];
  /** Where apps in the bucket have their data; null without a bucket. */
  bucket: S3Place | null;
}

/** A database, a KV namespace or a class of an app. */
export interface NamedStorage {
  kind: 'database' | 'namespace' | 'class';
  name: string;
  /** The `uniqueKey` of its objects' namespace in workerd's configuration. */
  uniqueKey: string;
  /** The id of the only object of a database or a namespace; null for a class, which has many. */
  object: string | null;
}

export interface Compared {
  head: Head;
  changes: StorageChange[];
  /** Why the current storage could not be read; then `changes` shows no differences. Null when it was read. */
  problem: string | null;
}

/** Maximum number of reported storages. Those that would lose most bytes come first. */
const MAX_CHANGES = 200;
/** Matches an object's id in a path on the disk or in the bucket. */
const OBJECT_ID = /\/([0-9a-f]{64})(?:\.sqlite$|\/)/;
const R2 = /^(buckets|importing\/r2)\//;

/** Discards what a capture writes: a comparison needs only the hashes of the chunks. */
const NOWHERE: Store = {
  list: async () => [],
  read: async (name) => {
    throw new Error(`${name} is not stored`);
  },
  write: async () => {},
  remove: async () => {},
};

/** Compares an app's storage with a snapshot. Finds missing packs, but not damaged ones. @throws {NotThere}, {Unusable} */
export async function compareStorage(job: CompareJob, holdBuckets: HoldBuckets): Promise<Compared> {
  const { app, only, bucket, storages } = job;
  const store = openStore(job.store);
  const { head, part } = await findApp(store, job.of, job.snapshot, app.id);
  const paths = layout(job.root);
  const then = filesOf(paths, { head, part, only });
  const there = new Set((await store.list(packName(''))).map(({ name }) => name));
  for (const { chunks } of then.values())
    for (const { pack } of chunks)
      if (!there.has(packName(pack))) throw cannotRestore(head, part, `${packName(pack)} is missing`);
  const elsewhere = app.isInBucket ? 'data/' : 'importing/';
  const restored = filesOf(paths, { head, part, only }, true);
  if ([...restored.keys()].some((place) => place.startsWith(elsewhere)))
    throw keptElsewhere({ snapshot: head.id, app: app.id }, app.isInBucket);
  const known = part.files.flatMap(({ chunks }) => chunks);
  const packs = new PackWriter(new SnapshotStore(NOWHERE, []), known);
  const capture = new Capture({ paths, packs, bucket, holdBuckets, before: [part] });
  let now = then;
  let problem: string | null = null;
  try {
    const files = await capture.storage(app, true);
    now = filesOf(paths, { head, part: { ...part, files }, only, mayBeEmpty: true });
  } catch (error) {
    problem = `the current storage could not be read: ${reason(error)}`;
  }
  return { head, changes: changesBetween(then, now, storages), problem };
}

/**
 * Returns what a restore would change in each storage, those that would lose most bytes first.
 * @param then the snapshot's files, by path below `data`, `buckets` or `importing`
 * @param now the current files, by path in the same way
 */
export function changesBetween(
  then: ReadonlyMap<string, FileEntry>,
  now: ReadonlyMap<string, FileEntry>,
  storages: readonly NamedStorage[],
): StorageChange[] {
  const stored = new Set([...then.values()].flatMap(({ chunks }) => chunks.map(({ hash }) => hash)));
  const changes = new Map<string, StorageChange>();
  for (const place of new Set([...then.keys(), ...now.keys()])) {
    const [before, after] = [then.get(place), now.get(place)];
    const { kind, name } = storageOf(place, storages);
    const key = `${kind} ${name}`;
    const none = { bytes: 0, now_bytes: 0, lost_bytes: 0, same: 0, replaced: 0, removed: 0, returned: 0 };
    const change = changes.get(key) ?? { kind, name, ...none };
    changes.set(key, change);
    change.bytes += before?.size ?? 0;
    change.now_bytes += after?.size ?? 0;
    for (const { hash, size } of after?.chunks ?? []) if (!stored.has(hash)) change.lost_bytes += size;
    change[fateOf(before, after)]++;
  }
  const weight = (change: StorageChange) => change.replaced + change.removed + change.returned;
  const sorted = [...changes.values()].sort((a, b) => b.lost_bytes - a.lost_bytes || weight(b) - weight(a));
  return sorted.slice(0, MAX_CHANGES);
}

function fateOf(
  before: FileEntry | undefined,
  after: FileEntry | undefined,
): 'same' | 'replaced' | 'removed' | 'returned' {
  if (before === undefined) return 'removed';
  if (after === undefined) return 'returned';
  const isSame =
    before.chunks.length === after.chunks.length &&
    before.chunks.every(({ hash }, index) => hash === after.chunks[index]!.hash);
  return isSame ? 'same' : 'replaced';
}

function storageOf(place: string, storages: readonly NamedStorage[]): Pick<StorageChange, 'kind' | 'name'> {
  if (R2.test(place)) return { kind: 'buckets', name: '' };
  const id = OBJECT_ID.exec(place)?.[1];
  const found =
    id !== undefined &&
    storages.find(({ object, uniqueKey }) => (object === null ? isIdOf(uniqueKey, id) : object === id));
  return found ? { kind: found.kind, name: found.name } : { kind: 'other', name: '' };
}
