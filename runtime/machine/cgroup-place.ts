// Where this process's control groups lie, in version 1 and version 2 of the kernel's interface, and how version 2 lets
// groups below them have limits. See cgroups(7).
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** What limits memory, what limits processes, and what shares out the processors. */
export type Controller = 'memory' | 'pids' | 'cpu';

/** Where a controller keeps its groups. */
export interface Place {
  version: 1 | 2;
  directory: string;
}

/** The file of a group that names its processes, and that moves those written to it. */
export const PROCESSES = 'cgroup.procs';
/** The group that a host goes to so that the one it was in may have groups with limits. */
const ROOM = 'cellar-host';
const ROOM_AT_END = new RegExp(`/${ROOM}$`);

/**
 * Where the group of this process lies for a controller. A container sees its own group as the root, yet may be told the
 * outer path.
 * @param root where `proc` and `sys` lie
 * @throws {Error} when it has none
 */
export function ownGroup(controller: Controller, root: string): Place {
  const lines = text(join(root, 'proc/self/cgroup')).split('\n');
  const mounted = join(root, 'sys/fs/cgroup');
  const v1 = lines
    .map((line) => new RegExp(`^\\d+:(?:[^:]*,)?${controller}(?:,[^:]*)?:(.*)$`).exec(line)?.[1])
    .find((path) => path !== undefined);
  if (v1 !== undefined) {
    const directory = firstGroup([join(mounted, controller, v1), join(mounted, controller)]);
    if (directory !== undefined) return { version: 1, directory };
  }
  const v2 = ownPath2(lines);
  if (v2 !== undefined) {
    const directory = firstGroup([join(mounted, v2), mounted]);
    if (directory !== undefined && offers(directory, controller)) return { version: 2, directory };
  }
  throw new Error('this process has no control group for it');
}

/**
 * The path of this process's group in version 2, from the lines of `/proc/self/cgroup`. Where the host has made room for
 * its groups, that is the one they all lie in.
 */
export function ownPath2(lines: string[]): string | undefined {
  const line = lines.find((candidate) => candidate.startsWith('0::'));
  return line?.slice('0::'.length).replace(ROOM_AT_END, '');
}

/** The group that this process and those of apps are in, which lie in `place` or, to make room, below it. */
export function home({ version, directory }: Place): string {
  const below = join(directory, ROOM);
  return version === 2 && existsSync(below) ? below : directory;
}

function firstGroup(directories: string[]): string | undefined {
  return directories.find((directory) => existsSync(join(directory, PROCESSES)));
}

function offers(directory: string, controller: Controller): boolean {
  return text(join(directory, 'cgroup.controllers')).trim().split(' ').includes(controller);
}

/**
 * Version 2: lets the groups in `directory` have a controller. A group that does so may hold no process itself.
 * @throws {Error} when it may not, or has other processes than this one
 */
export function delegate(directory: string, controller: Controller): void {
  const enabled = join(directory, 'cgroup.subtree_control');
  if (text(enabled).trim().split(' ').includes(controller)) return;
  try {
    writeFileSync(enabled, `+${controller}`);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EBUSY') throw error;
    makeRoom(directory);
    writeFileSync(enabled, `+${controller}`);
  }
}

/** Moves this process, what it has started, and those it was started by, such as npm, a group down, if the group has no others. */
function makeRoom(directory: string): void {
  const above = ancestors(String(process.pid));
  const members = text(join(directory, PROCESSES)).trim().split('\n');
  const other = members.find((pid) => !above.includes(pid) && !ancestors(pid).includes(String(process.pid)));
  if (other !== undefined) {
    throw new Error(
      `process ${other} is in the same group; with systemd, set Delegate=yes for Cellar's unit`,
    );
  }
  const below = join(directory, ROOM);
  mkdirSync(below, { recursive: true });
  for (const pid of members) writeFileSync(join(below, PROCESSES), pid);
}

/** The ids of a process and of those above it. */
function ancestors(pid: string): string[] {
  const pids: string[] = [];
  for (let id = pid; id !== '0' && id !== ''; ) {
    pids.push(id);
    id = /^PPid:\t(\d+)$/m.exec(text(`/proc/${id}/status`))?.[1] ?? '';
  }
  return pids;
}

function text(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
