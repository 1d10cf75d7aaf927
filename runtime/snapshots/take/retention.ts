// Removes old snapshots, and packs that no snapshot needs.

import { UNFINISHED } from '../../bucket/store.ts';
import { reason } from '../../log.ts';
import { listSnapshots, readHead, readManifest, removeManifest, timeOf } from '../store/manifest.ts';
import { packName } from '../store/packs.ts';
import type { SnapshotStore } from '../store/snapshot-store.ts';

export interface Keep {
  /** Maximum snapshots of deploys, and maximum of all others; of those with local apps of a host for each host. */
  count: number;
  /** Maximum age in days; 0: no limit. */
  days: number;
  /** Minimum age of packs to remove, in ms: another host may be writing to the same store. */
  youngMs: number;
}

const DAY_MS = 24 * 3_600_000;
/** Prefix of the reason of a deploy's snapshot. Everyone who may push can cause many of them. */
export const BEFORE_DELETED_CLASSES = 'before deleted classes';

/**
 * Removes snapshots beyond the limits, but never the newest. Then removes packs that no snapshot needs.
 * @param sweep whether an earlier snapshot was interrupted, and may have left packs
 * @returns the ids of removed snapshots
 */
export async function removeOld(
  store: SnapshotStore,
  keep: Keep,
  { sweep, warn }: { sweep: boolean; warn: (message: string) => void },
): Promise<string[]> {
  const ids = await listSnapshots(store);
  const oldest = keep.days === 0 ? Number.NEGATIVE_INFINITY : Date.now() - keep.days * DAY_MS;
  const tooMany = await beyond(store, ids, keep.count);
  const removed = ids.slice(0, -1).filter((id) => tooMany.has(id) || timeOf(id) < oldest);
  for (const id of removed) await removeManifest(store, id);
  if (removed.length === 0 && !sweep) return [];
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

/**
 * Returns the snapshots above `count`. Those of deploys are counted separately, so that they do not displace others, and so are
 * those with local apps of a host, which no other snapshot has.
 */
async function beyond(store: SnapshotStore, ids: string[], count: number): Promise<Set<string>> {
  if (ids.length <= count) return new Set();
  const kinds = new Map<string, string[]>();
  for (const id of ids) {
    const head = await readHead(store, id).catch(() => null);
    const kind = `${head?.why.startsWith(BEFORE_DELETED_CLASSES) ?? false} ${head?.host ?? ''}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), id]);
  }
  return new Set([...kinds.values()].flatMap((kind) => kind.slice(0, Math.max(0, kind.length - count))));
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
