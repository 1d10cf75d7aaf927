// Removes old snapshots, and packs that no snapshot needs.

import { UNFINISHED } from '../../bucket/store.ts';
import { reason } from '../../log.ts';
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

export interface Keep {
  /** Maximum snapshots of deploys, and maximum of all others; of those with local apps of a host for each host. */
  count: number;
  /** The same for hourly ones. */
  hourly: number;
  /** Maximum age in days; 0: no limit. */
  days: number;
  /** Minimum age of packs to remove, in ms: another host may be writing to the same store. */
  youngMs: number;
}

const DAY_MS = 24 * 3_600_000;
/** Prefix of the reason of a deploy's snapshot. Everyone who may push can cause many of them. */
export const BEFORE_DELETED_CLASSES = 'before deleted classes';
/** The reason of snapshots that let an app return to any hour of the last day. */
export const HOURLY = 'hourly';

/** Kinds of snapshots, each counted separately. */
export type SnapshotKind = 'hourly' | 'deploy' | 'other';

/** Returns the kind of a snapshot. */
export function kindOf({ why }: Pick<Head, 'why'>): SnapshotKind {
  if (why === HOURLY) return 'hourly';
  return why.startsWith(BEFORE_DELETED_CLASSES) ? 'deploy' : 'other';
}

/** How old snapshots are removed. */
export interface Removal {
  /** Whether an earlier snapshot was interrupted, and may have left packs. */
  sweep: boolean;
  /** Maximum bytes that all hourly snapshots have written. The oldest are removed. */
  hourlyBytes: number;
  warn: (message: string) => void;
}

/**
 * Removes snapshots beyond the limits, but never the newest. Then removes packs that no snapshot needs. An hourly snapshot
 * leaves them to the next other one, because that reads all snapshots.
 * @returns the ids of removed snapshots
 */
export async function removeOld(
  store: SnapshotStore,
  keep: Keep,
  { sweep, hourlyBytes, warn }: Removal,
): Promise<string[]> {
  const ids = await listSnapshots(store);
  const oldest = keep.days === 0 ? Number.NEGATIVE_INFINITY : Date.now() - keep.days * DAY_MS;
  const heads = await headsOf(store, ids);
  const tooMany = beyond(heads, keep);
  const tooLarge = beyondBytes(heads, hourlyBytes);
  const isOld = (id: string) => tooMany.has(id) || tooLarge.has(id) || timeOf(id) < oldest;
  const removed = ids.slice(0, -1).filter(isOld);
  for (const id of removed) await removeManifest(store, id);
  const newest = heads.get(ids.at(-1) ?? '');
  const isHourly = newest !== undefined && kindOf(newest) === 'hourly' && tooLarge.size === 0;
  // Hourly ones may have been removed since the last time.
  const isNeeded = removed.length > 0 || [...heads.values()].some((head) => kindOf(head) === 'hourly');
  if (!sweep && (isHourly || !isNeeded)) return removed;
  try {
    await removeUnneeded(
      store,
      ids.filter((id) => !removed.includes(id)),
      keep.youngMs,
    );
  } catch (error) {
    warn(`unused packs were not removed: ${reason(error)}`);
  }
  return removed;
}

/** Returns the heads of snapshots, the oldest first. One that cannot be read counts as an ordinary one. */
async function headsOf(store: SnapshotStore, ids: string[]): Promise<Map<string, CountedHead>> {
  const heads = new Map<string, CountedHead>();
  for (const id of ids)
    heads.set(id, await readHead(store, id).catch(() => ({ why: '', host: '', written: 0 })));
  return heads;
}

type CountedHead = Pick<Head, 'why' | 'host' | 'written'>;

/**
 * Returns the snapshots above the limits. Each kind is counted separately, so that it does not displace others, and so are those
 * with local apps of a host, which no other snapshot has.
 */
function beyond(heads: ReadonlyMap<string, CountedHead>, { count, hourly }: Keep): Set<string> {
  const groups = new Map<string, string[]>();
  for (const [id, head] of heads) {
    const group = `${kindOf(head)} ${head.host}`;
    groups.set(group, [...(groups.get(group) ?? []), id]);
  }
  const tooMany = [...groups].flatMap(([group, ids]) =>
    ids.slice(0, Math.max(0, ids.length - (group.startsWith('hourly') ? hourly : count))),
  );
  return new Set(tooMany);
}

/** Returns the oldest hourly snapshots, without which the others have written at most so many bytes. */
function beyondBytes(heads: ReadonlyMap<string, CountedHead>, bytes: number): Set<string> {
  let left = bytes;
  const removed = new Set<string>();
  for (const [id, head] of [...heads].reverse()) {
    if (kindOf(head) !== 'hourly') continue;
    left -= head.written;
    if (left < 0) removed.add(id);
  }
  return removed;
}

/** @throws {Error} when a snapshot cannot be read: its packs are unknown, so none is removed */
async function removeUnneeded(store: SnapshotStore, ids: string[], youngMs: number): Promise<void> {
  const needed = new Set<string>();
  for (const id of ids) {
    const { parts } = await readManifest(store, id);
    for (const { files } of parts)
      for (const { chunks } of files) for (const { pack } of chunks) needed.add(packName(pack));
  }
  const before = Date.now() - youngMs;
  for (const { name, writtenAt } of await store.list(packName('')))
    if (!needed.has(name) && writtenAt <= before) await store.remove(name);
  for (const { name } of await store.list(UNFINISHED)) await store.remove(name);
}
