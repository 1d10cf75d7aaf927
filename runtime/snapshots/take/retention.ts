// Removes old snapshots, and packs that no snapshot needs.

import { UNFINISHED } from '../../bucket/store.ts';
import { reason } from '../../log.ts';
import { NotThere, Unusable } from '../errors.ts';
import {
  type Head,
  listSnapshots,
  readHead,
  readManifest,
  removeManifest,
  timeOf,
} from '../store/manifest.ts';
import { packName } from '../store/packs.ts';
import type { SnapshotStore } from '../store/snapshot-store.ts';
import { isUnreadable } from '../verify.ts';

export interface Keep {
  /** Maximum snapshots of kind `deploy`, and of kind `other`. Those with apps on a host's disk are counted for each host. */
  count: number;
  /** Maximum hourly snapshots, counted in the same way. */
  hourly: number;
  /** Maximum age in days; 0: no limit. */
  days: number;
  /** Minimum age of packs to remove, in ms: another host may be writing to the same store. */
  youngMs: number;
}

const DAY_MS = 24 * 3_600_000;
/**
 * Prefix of the reason (`why`) of a snapshot before a deploy deletes classes. Such snapshots are counted separately, because
 * everyone who may push can cause many.
 */
export const BEFORE_DELETED_CLASSES = 'before deleted classes';
/** The reason (`why`) of hourly snapshots, with which an app can return to a recent hour. */
export const HOURLY = 'hourly';

/** Kinds of snapshots, each counted separately. Those of the kind `other` are called ordinary. */
export type SnapshotKind = 'hourly' | 'deploy' | 'other';

export function kindOf({ why }: Pick<Head, 'why'>): SnapshotKind {
  if (why === HOURLY) return 'hourly';
  return why.startsWith(BEFORE_DELETED_CLASSES) ? 'deploy' : 'other';
}

/** How old snapshots are removed. */
export interface Removal {
  /** Maximum bytes that all hourly snapshots have written. The oldest are removed. */
  hourlyBytes: number;
  warn: (message: string) => void;
}

/**
 * Removes snapshots as `removeExpired` does. Then removes packs that no snapshot needs. For that it reads the manifests of all
 * snapshots. So after an hourly snapshot it removes packs only once a day (UTC), or if `hourlyBytes` is exceeded.
 * @returns the ids of removed snapshots
 */
export async function removeOld(store: SnapshotStore, keep: Keep, removal: Removal): Promise<string[]> {
  const { removed, heads, isTooLarge } = await removeExpired(store, keep, removal);
  const ids = [...heads.keys()];
  const isHourly = (id: string) => heads.get(id)?.kind === 'hourly';
  const [previous = '', newest = ''] = ids.slice(-2);
  const leavesPacks = isHourly(newest) && !isTooLarge && dayOf(newest) === dayOf(previous);
  // Earlier calls may have removed hourly snapshots without their packs.
  const isNeeded = removed.length > 0 || ids.some(isHourly);
  if (!leavesPacks && isNeeded) await removeUnneeded(store, keep.youngMs, removal.warn);
  return removed;
}

/**
 * Removes snapshots beyond the limits, but not their packs. The newest that can be read stays, and so do all after it.
 * @returns `removed`: the ids of removed snapshots; `heads`: of all before the removal; `isTooLarge`: whether `hourlyBytes` was
 * exceeded
 */
export async function removeExpired(
  store: SnapshotStore,
  keep: Keep,
  { hourlyBytes, warn }: Removal,
): Promise<{ removed: string[]; heads: Heads; isTooLarge: boolean }> {
  const ids = await listSnapshots(store);
  const oldest = keep.days === 0 ? Number.NEGATIVE_INFINITY : Date.now() - keep.days * DAY_MS;
  let heads: Heads;
  try {
    heads = await headsOf(store, ids);
  } catch (error) {
    warn(`old snapshots were not removed: ${reason(error)}`);
    return { removed: [], heads: new Map(), isTooLarge: false };
  }
  const tooMany = beyond(heads, keep);
  const tooLarge = beyondBytes(heads, hourlyBytes);
  const isOld = (id: string) => tooMany.has(id) || tooLarge.has(id) || timeOf(id) < oldest;
  const newest = ids.findLastIndex((id) => heads.get(id) !== null);
  const removed = ids.filter((id, at) => at < newest && isOld(id));
  for (const id of removed) await removeManifest(store, id);
  return { removed, heads, isTooLarge: tooLarge.size > 0 };
}

/** Returns the day of a snapshot in UTC. */
function dayOf(id: string): string {
  return id.slice(0, 10);
}

/** Snapshots by id, the oldest first, with the fields that the limits need. Null for one that cannot be read. */
type Heads = ReadonlyMap<string, (Pick<Head, 'host' | 'written'> & { kind: SnapshotKind }) | null>;

/** @throws {Error} when the store does not answer: no snapshot may be removed then */
async function headsOf(store: SnapshotStore, ids: string[]): Promise<Heads> {
  const heads = new Map<string, Awaited<ReturnType<typeof headOf>>>();
  for (const id of ids) heads.set(id, await headOf(store, id));
  return heads;
}

async function headOf(store: SnapshotStore, id: string) {
  try {
    const head = await readHead(store, id);
    return { kind: kindOf(head), host: head.host, written: head.written };
  } catch (error) {
    if (error instanceof Unusable || error instanceof NotThere || isUnreadable(error)) return null;
    throw error;
  }
}

/**
 * Returns the snapshots above the limits. Each kind is counted separately, so that it does not displace others. Snapshots
 * with apps on a host's disk are counted for each host: no other host's snapshots have these apps. A snapshot that cannot be
 * read may be of any kind. It is removed once newer ordinary snapshots reach their limit.
 */
function beyond(heads: Heads, { count, hourly }: Keep): Set<string> {
  const tooMany = new Set<string>();
  const counts = new Map<string, number>();
  let ordinary = 0;
  for (const [id, head] of [...heads].reverse()) {
    if (head === null) {
      if (ordinary >= count) tooMany.add(id);
      continue;
    }
    if (head.kind === 'other') ordinary++;
    const group = `${head.kind} ${head.host}`;
    const counted = (counts.get(group) ?? 0) + 1;
    counts.set(group, counted);
    if (counted > (head.kind === 'hourly' ? hourly : count)) tooMany.add(id);
  }
  return tooMany;
}

/** Returns the oldest hourly snapshots to remove, so that the others have written at most `bytes`. */
function beyondBytes(heads: Heads, bytes: number): Set<string> {
  let left = bytes;
  const removed = new Set<string>();
  for (const [id, head] of [...heads].reverse()) {
    if (head?.kind !== 'hourly') continue;
    left -= head.written;
    if (left < 0) removed.add(id);
  }
  return removed;
}

/**
 * Removes packs that no snapshot needs, and unfinished files. Removes nothing when a snapshot cannot be read, because its
 * packs are unknown. Never rejects.
 * @param youngMs minimum age of the packs, as in `Keep`
 */
export async function removeUnneeded(
  store: SnapshotStore,
  youngMs: number,
  warn: (message: string) => void,
): Promise<void> {
  try {
    const needed = new Set<string>();
    for (const id of await listSnapshots(store)) {
      const { parts } = await readManifest(store, id);
      for (const { files } of parts)
        for (const { chunks } of files) for (const { pack } of chunks) needed.add(packName(pack));
    }
    const before = Date.now() - youngMs;
    for (const { name, writtenAt } of await store.list(packName('')))
      if (!needed.has(name) && Math.floor(writtenAt) <= before) await store.remove(name);
    for (const { name } of await store.list(UNFINISHED)) await store.remove(name);
  } catch (error) {
    warn(`unused packs were not removed: ${reason(error)}`);
  }
}
