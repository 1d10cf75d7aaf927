// Moves processes to low priority, at which they run only on idle processors, and back. Does nothing on a machine where this
// process cannot set CPU shares.
import { setLowPriority } from './cell-groups.ts';
import type { LowPriorityGroup, LowPriorityKind } from './cgroup.ts';

let group: LowPriorityGroup | null = null;

/** Sets the group for low-priority processes; `null`: none. */
export function openLowPriorityGroup(found: LowPriorityGroup | null): void {
  group = found;
}

/** Sets or removes the minimum CPU share of low-priority processes. Never rejects. */
export async function setMinimumShare(has: boolean): Promise<void> {
  await group?.floor(has).catch(() => {});
}

/** Moves a process and its later children to low priority. Never rejects: the process may have ended. */
export async function toLowPriority(pid: number, as: LowPriorityKind = 'apps'): Promise<void> {
  if (!(await setLowPriority(pid, true))) await group?.add(pid, as).catch(() => {});
}

/** Returns a process to normal priority. Never rejects: the process may have ended. */
export async function toNormalPriority(pid: number): Promise<void> {
  if (!(await setLowPriority(pid, false))) await group?.release(pid).catch(() => {});
}
