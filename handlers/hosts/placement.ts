// Chooses the host for an app.
import type { HostLoad } from '../contract/host/hosts.ts';

/** A host that may get apps. */
export interface Candidate {
  id: string;
  load: HostLoad;
  /** Number of apps that it got since it reported `load`. */
  placed: number;
}

const MIB = 2 ** 20;
/** Bytes of memory reserved for each app in `placed`. */
const ROOM_OF_AN_APP = 64 * MIB;
/** Free memory is compared in steps of this many bytes: smaller differences between hosts do not count. */
const MEMORY_STEP = 256 * MIB;
/** Processor use, from 0 to 1, is compared in steps of this size. */
const CPU_STEP = 0.1;
/** Free disk space is compared in steps of this many bytes. */
const DISK_STEP = 1024 * MIB;

/**
 * Returns the id of the host with the most free memory. Of equal hosts, the one with the least processor use, then with the
 * most free disk, then with the fewest apps. Null without candidates.
 */
export function roomiest(candidates: readonly Candidate[]): string | null {
  const [first] = candidates
    .map(({ id, load, placed }) => ({ id, room: roomOf(load, placed) }))
    .sort((a, b) => compare(b.room, a.room) || (a.id < b.id ? -1 : 1));
  return first?.id ?? null;
}

function roomOf({ memory_free_bytes, cpu, disk_free_bytes, apps }: HostLoad, placed: number): number[] {
  return [
    Math.floor((memory_free_bytes - placed * ROOM_OF_AN_APP) / MEMORY_STEP),
    -Math.floor(cpu / CPU_STEP),
    Math.floor(disk_free_bytes / DISK_STEP),
    -(apps + placed),
  ];
}

function compare(a: number[], b: number[]): number {
  const at = a.findIndex((value, n) => value !== b[n]);
  return at < 0 ? 0 : a[at]! - b[at]!;
}
