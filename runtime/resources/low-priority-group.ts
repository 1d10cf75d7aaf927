// Processes that work in the background: they get the processors when nobody else wants them. Nothing happens on a machine
// that does not let this one share them out.
import { setInBackground } from './cell-groups.ts';
import type { BackgroundGroup, InBackground } from './cgroup.ts';

let group: BackgroundGroup | null = null;

/** Says where such processes go; `null`: nowhere. */
export function openLowPriorityGroup(found: BackgroundGroup | null): void {
  group = found;
}

/** Gives what works in the background a floor, as long as others leave it nothing, or takes that away. Never rejects. */
export async function setMinimumShare(has: boolean): Promise<void> {
  await group?.floor(has).catch(() => {});
}

/** Has a process, and what it starts from now on, work in the background. Never rejects: it may have ended. */
export async function toLowPriority(pid: number, as: InBackground = 'apps'): Promise<void> {
  if (!(await setInBackground(pid, true))) await group?.add(pid, as).catch(() => {});
}

/** Treats a process like all others again. Never rejects: it may have ended. */
export async function toNormalPriority(pid: number): Promise<void> {
  if (!(await setInBackground(pid, false))) await group?.release(pid).catch(() => {});
}
