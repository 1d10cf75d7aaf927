// Takes a snapshot, in a process of its own.
import { rmSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import type { Verified } from '../../../handlers/contract/admin.ts';
import { cutText } from '../../../handlers/contract/text.ts';
import { appsOfCopy, type CopiedApp } from '../../../sqlite/host/snapshots.ts';
import type { S3Place } from '../../bucket/place.ts';
import { UNFINISHED } from '../../bucket/store.ts';
import { layout } from '../../disk/data-directory.ts';
import { isOnDiskOf } from '../../disk/disk.ts';
import { reason } from '../../log.ts';
import { Locked } from '../errors.ts';
import {
  type Head,
  listSnapshots,
  type Manifest,
  nextId,
  type Part,
  readHead,
  readManifest,
  writeManifest,
} from '../store/manifest.ts';
import { requireOwn, type StoreOwner } from '../store/owner.ts';
import { type Chunk, isMarked, PackWriter, packName } from '../store/packs.ts';
import { openStore, type StorePlace } from '../store/place.ts';
import type { SnapshotStore } from '../store/snapshot-store.ts';
import { type BadPacks, NEVER_VERIFIED, readRecord, record } from '../verify.ts';
import { Capture, type HoldBuckets } from './capture.ts';
import { type AmongHosts, addAppsOfOtherHosts } from './other-hosts.ts';
import { repack } from './repack.ts';
import { type Keep, type Removal, removeExpired, removeOld, removeUnneeded } from './retention.ts';

export interface TakeJob extends StoreOwner {
  kind: 'take';
  /** The data directory. */
  root: string;
  store: StorePlace;
  why: string;
  keep: Keep;
  /** MiB that must stay free on the disk of the data directory. */
  floorMb: number;
  /** Whether apps' files are read as users of their own. */
  hasUsers: boolean;
  /** Where apps in the bucket have their data; null without a bucket. */
  bucket: S3Place | null;
  /** Null in a Cellar of one host. */
  hosts: AmongHosts | null;
}

export interface Taken {
  head: Head;
  /** Bytes written for it, with the manifest. */
  bytes: number;
  /** Ids of apps that could not be read: the snapshot has their files of the previous one. */
  unread: string[];
  /** Ids of removed snapshots. */
  removed: string[];
  /** The updated result of the verification; null when nothing is known to be damaged. */
  verified: Verified | null;
}

/** Calls to the host. */
export interface Host {
  /** Makes a copy of the host's database. @returns its path */
  copyDatabase(): Promise<string>;
  holdBuckets: HoldBuckets;
  warn(message: string): void;
}

/** Maximum rounds in which apps that were deployed meanwhile are read again. */
const ROUNDS = 4;
/** The share of a disk that hourly snapshots may use. */
const HOURLY_SHARE = 0.1;
/** Maximum failures that a head lists. */
const MAX_FAILURES = 50;
const MAX_LEFT_OUT = 50;

/**
 * Takes a snapshot. When an app cannot be read, the snapshot gets the app's files of the previous one.
 * @throws {Unusable} as `requireOwn` does, and when the store has encrypted snapshots and this Cellar has no key
 * @throws {Error} when another part cannot be read, the store fails, or apps change in every round
 */
export async function take(job: TakeJob, host: Host): Promise<Taken> {
  const isOnDataDisk = 'directory' in job.store && isOnDiskOf(job.store.directory, job.root);
  const store = openStore(job.store, isOnDataDisk ? job.floorMb : null);
  await requireOwn(store, job);
  // An interrupted snapshot may have left packs. They may fill the disk, so they are removed before anything is written.
  const removeLeft = () => removeUnneeded(store, job.keep.youngMs, host.warn);
  const removal = { warn: host.warn, hourlyBytes: await hourlyBytes(job.store) };
  // Snapshots beyond the limits may fill the disk too.
  const { removed } =
    'directory' in job.store ? await removeExpired(store, job.keep, removal) : { removed: [] };
  if (removed.length > 0 || (await store.list(UNFINISHED)).length > 0) await removeLeft();
  try {
    const taken = await takeInto(store, job, host, removal);
    return { ...taken, removed: [...removed, ...taken.removed] };
  } catch (error) {
    // Otherwise the packs of a failed snapshot would keep the disk full. Without the key, nothing was written.
    if ('directory' in job.store && !(error instanceof Locked)) await removeLeft();
    throw error;
  } finally {
    rmSync(layout(job.root).snapshotting, { recursive: true, force: true });
  }
}

async function takeInto(store: SnapshotStore, job: TakeJob, host: Host, removal: Removal): Promise<Taken> {
  const sizes = new Map((await store.list(packName(''))).map(({ name, bytes }) => [name, bytes]));
  const ids = await listSnapshots(store);
  const before = await partsBefore(store, ids, host, job.hosts?.hasLocal ? job.hosts.self : null);
  await store.write(`${UNFINISHED}mark`, Buffer.from('\n'));
  const known = await readRecord(store);
  const bad = findBadPacks(before, sizes, known?.bad ?? {});
  for (const [name, problem] of Object.entries(bad))
    host.warn(`${name} is ${problem}: the data in it that the snapshot needs is written again`);
  // A chunk that an older key encrypted is written again. Otherwise new snapshots would need data that the old key can read.
  const isGood = ({ pack }: Chunk) => isMarked(pack, store) && !Object.hasOwn(bad, packName(pack));
  const good = before.map((part) => ({
    ...part,
    // A file with any other chunk is read again, as if it had changed.
    files: part.files.filter(({ chunks }) => chunks.every(isGood)),
  }));
  const packs = new PackWriter(store, [...chunksOf(before)].filter(isGood));
  const capture = new Capture({
    paths: layout(job.root),
    packs,
    bucket: job.bucket,
    holdBuckets: host.holdBuckets,
    isShared: job.hosts !== null,
    before: good,
  });
  const created = new Date();
  const { copy, apps, failures, hasLocal } = await captureApps(job, host, capture, before);
  const readAt = new Date();
  const parts = [await capture.hostDatabase(copy), await capture.control(), ...apps];
  await repack(store, packs, parts, { sizes, warn: host.warn });
  await packs.finish();
  const about = {
    id: nextId(ids, created),
    of: job.of,
    created_at: created.toISOString(),
    read_at: readAt.toISOString(),
    why: job.why,
    written: packs.written,
    bytes: parts.flatMap(({ files }) => files).reduce((sum, { size }) => sum + size, 0),
    apps: apps.length,
    failures: failures.slice(0, MAX_FAILURES),
    host: hasLocal ? (job.hosts?.self ?? '') : '',
    left_out: (job.hosts?.leftOut ?? []).slice(0, MAX_LEFT_OUT),
  };
  const { head, bytes } = await writeManifest(store, about, parts);
  const removed = await removeOld(store, job.keep, removal);
  for (const name of packs.names) delete bad[name];
  const verified =
    Object.keys(bad).length + (known?.damaged.length ?? 0) === 0
      ? null
      : await record(store, bad, known ?? NEVER_VERIFIED);
  await store.remove(`${UNFINISHED}mark`);
  const unread = failures.map(({ app }) => app);
  return { head, bytes: packs.written + bytes, unread, removed, verified };
}

/** Returns how many bytes hourly snapshots may have written. A bucket has no limit. */
async function hourlyBytes(place: StorePlace): Promise<number> {
  if ('s3' in place) return Number.POSITIVE_INFINITY;
  const { blocks, bsize } = await statfs(place.directory);
  return blocks * bsize * HOURLY_SHARE;
}

/**
 * Returns the parts of the newest readable snapshot. If another host took it, it lacks this host's local apps. Then adds
 * them from the newest snapshot that this host took.
 * @param self id of this host if it is one of several and has local apps; else null
 */
async function partsBefore(
  store: SnapshotStore,
  ids: string[],
  host: Host,
  self: string | null,
): Promise<Part[]> {
  const newest = await lastSnapshot(store, ids, host);
  if (newest === null) return [];
  const { head, parts } = newest;
  if (self === null || head.host === self) return parts;
  const older = ids.filter((id) => id < head.id);
  const own = await lastSnapshot(store, older, host, self);
  const isMissing = ({ kind, id }: Part) => kind === 'app' && !parts.some((part) => part.id === id);
  return [...parts, ...(own?.parts.filter(isMissing) ?? [])];
}

/** Returns the newest readable snapshot; null when there is none. @param of id of the host that took it; default: any */
async function lastSnapshot(
  store: SnapshotStore,
  ids: string[],
  host: Host,
  of?: string,
): Promise<Manifest | null> {
  for (const id of ids.toReversed()) {
    try {
      if (of === undefined || (await readHead(store, id)).host === of) return await readManifest(store, id);
    } catch (error) {
      // The key may be missing by mistake: never write readable data beside encrypted data.
      if (error instanceof Locked && store.mark === '')
        throw new Locked(`${error.message}, or another place in RUNNER_SNAPSHOT_URL`);
      host.warn(`the previous snapshot is not used: ${reason(error)}`);
    }
  }
  return null;
}

/**
 * Returns packs that must not be reused: those that a verification found bad, and those of the previous snapshot that are
 * missing or too short in the list of packs.
 */
function findBadPacks(before: Part[], sizes: ReadonlyMap<string, number>, known: BadPacks): BadPacks {
  const bad = { ...known };
  for (const { pack, offset, length } of chunksOf(before)) {
    const name = packName(pack);
    const bytes = sizes.get(name);
    if (bytes === undefined) bad[name] = 'missing';
    else if (bytes < offset + length) bad[name] = 'damaged';
  }
  return bad;
}

function* chunksOf(parts: Part[]): Generator<Chunk> {
  for (const { files } of parts) for (const { chunks } of files) yield* chunks;
}

/**
 * Reads every app, and again those deployed or moved meanwhile: the release and the storage in the snapshot must be those in
 * the copy of the host's database.
 */
async function captureApps(
  job: TakeJob,
  host: Host,
  capture: Capture,
  before: Part[],
): Promise<{ copy: string; apps: Part[]; failures: Head['failures']; hasLocal: boolean }> {
  const captured = new Map<string, { state: string; part: Part; failure: Head['failures'][number] | null }>();
  for (let round = 0; round < ROUNDS; round++) {
    const copy = await host.copyDatabase();
    if (job.hosts !== null && job.bucket !== null)
      await addAppsOfOtherHosts(copy, job.bucket, job.hosts.self);
    const apps = appsOfCopy(copy);
    const changed = apps.filter((app) => captured.get(app.id)?.state !== stateOf(app));
    if (changed.length === 0) {
      const found = apps.map(({ id }) => captured.get(id)!);
      return {
        copy,
        apps: found.map(({ part }) => part),
        failures: found.flatMap((each) => each.failure ?? []),
        hasLocal: apps.some(({ isInBucket }) => !isInBucket),
      };
    }
    for (const app of changed) {
      const { id, slug, isInBucket } = app;
      const user = job.hasUsers && app.uid !== null ? { uid: app.uid, gid: app.uid } : null;
      const state = stateOf(app);
      try {
        const part = await capture.app({ id, slug, liveDeployId: app.liveDeployId, user, isInBucket });
        captured.set(id, { state, part, failure: null });
      } catch (error) {
        host.warn(`app ${slug} could not be read: ${reason(error)}`);
        const part = before.find((each) => each.id === id) ?? { kind: 'app', id, slug, files: [] };
        captured.set(id, {
          state,
          part: { ...part, failed: true },
          failure: { app: id, slug, error: cutText(reason(error), 500) },
        });
      }
    }
  }
  throw new Error(
    'apps were deployed or moved repeatedly while they were read; the snapshot is retried later',
  );
}

function stateOf({ liveDeployId, storageNames, isInBucket }: CopiedApp): string {
  return JSON.stringify([liveDeployId, storageNames, isInBucket]);
}
