// Low-priority processes: they run only on idle processors. Does nothing on a machine where this process cannot set CPU
// shares.
import { setInBackground } from './cell-groups.ts';
import type { BackgroundGroup, InBackground } from './cgroup.ts';

let group: BackgroundGroup | null = null;

/** Sets the group for such processes; `null`: none. */
export function openLowPriorityGroup(found: BackgroundGroup | null): void {
  group = found;
}

/** Sets or removes the minimum CPU share of low-priority processes. Never rejects. */
export async function setMinimumShare(has: boolean): Promise<void> {
  await group?.floor(has).catch(() => {});
}

/** Moves a process and its later children to low priority. Never rejects: the process may have ended. */
export async function toLowPriority(pid: number, as: InBackground = 'apps'): Promise<void> {
  if (!(await setInBackground(pid, true))) await group?.add(pid, as).catch(() => {});
}

/** Returns a process to normal priority. Never rejects: the process may have ended. */
export async function toNormalPriority(pid: number): Promise<void> {
  if (!(await setInBackground(pid, false))) await group?.release(pid).catch(() => {});
}
