// Finds this process's control groups, in version 1 and version 2 of the kernel's interface. Enables limits for groups below
// them in version 2. See cgroups(7).
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Controllers of memory, of the number of processes, and of CPU shares. */
export type Controller = 'memory' | 'pids' | 'cpu';

/** A control group: its directory, and the version of the kernel's interface there. */
export interface Place {
  version: 1 | 2;
  directory: string;
}

/** The file that lists a group's processes. A process whose id is written to it moves into the group. */
export const PROCESSES = 'cgroup.procs';
/** The name of the subgroup that the host moves to, so that its former group may have subgroups with limits. */
const HOST_GROUP = 'cellar-host';
const HOST_GROUP_AT_END = new RegExp(`/${HOST_GROUP}$`);
/** Maximum rounds of moving all processes out of a group: processes not yet moved may start more. */
const MOST_ROUNDS = 100;

/**
 * Returns the group of this process for a controller. In a container, `/proc` may show the group's path on the machine,
 * while the container sees this group as the root. So both directories are tried.
 * @param root the directory with `proc` and `sys`
 * @throws {Error} when there is no such group
 */
export function ownControlGroup(controller: Controller, root: string): Place {
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
  throw new Error('this process has no control group with this controller');
}

/**
 * Returns the path of this process's group in version 2, from the lines of `/proc/self/cgroup`. After the host has moved to
 * a subgroup, returns the parent.
 */
export function ownPath2(lines: string[]): string | undefined {
  const line = lines.find((candidate) => candidate.startsWith('0::'));
  return line?.slice('0::'.length).replace(HOST_GROUP_AT_END, '');
}

/** Returns the directory of the group that has this process: `directory`, or the subgroup that the host moved to. */
export function home({ version, directory }: Place): string {
  const below = join(directory, HOST_GROUP);
  return version === 2 && existsSync(below) ? below : directory;
}

/**
 * Returns the limit of processes and threads of this process's group: the lowest of its own and of those of its visible
 * ancestors, such as a container's. `null`: no limit.
 * @param root the directory with `proc` and `sys`
 */
export function mostTasks(root = '/'): number | null {
  const limits: number[] = [];
  try {
    for (
      let { directory } = ownControlGroup('pids', root);
      existsSync(join(directory, PROCESSES));
      directory = dirname(directory)
    ) {
      // The outermost group has no `pids.max`. The text `max`, for no limit, parses as NaN.
      const limit = Number.parseInt(text(join(directory, 'pids.max')), 10);
      if (!Number.isNaN(limit)) limits.push(limit);
    }
  } catch {
    // There are no control groups.
  }
  return limits.length === 0 ? null : Math.min(...limits);
}

function firstGroup(directories: string[]): string | undefined {
  return directories.find((directory) => existsSync(join(directory, PROCESSES)));
}

function offers(directory: string, controller: Controller): boolean {
  return text(join(directory, 'cgroup.controllers')).trim().split(' ').includes(controller);
}

/**
 * Version 2: enables a controller for the subgroups of the group `directory`. That group may then hold no processes itself.
 * So this process moves to a subgroup, with its children and the processes started with it, such as npm.
 * @throws {Error} when that is not permitted, or when the group has other processes
 */
export function delegate(directory: string, controller: Controller): void {
  const enabled = join(directory, 'cgroup.subtree_control');
  if (text(enabled).trim().split(' ').includes(controller)) return;
  // Move first. When a group with processes enables some controllers, the kernel makes it a threaded group, which cannot
  // limit memory. The outermost group has no type and may hold processes.
  if (existsSync(join(directory, 'cgroup.type'))) moveToHostGroup(directory);
  writeFileSync(enabled, `+${controller}`);
}

/** Moves all processes of a group to its subgroup. @throws {Error} when some were not started together with this process */
function moveToHostGroup(directory: string): void {
  const below = join(directory, HOST_GROUP);
  const outermost = ancestors(String(process.pid)).findLast((pid) =>
    [...members(directory), ...members(below)].includes(pid),
  );
  for (let rounds = 1; ; rounds++) {
    const pids = members(directory);
    if (pids.length === 0) return;
    const other = pids.find((pid) => !ancestors(pid).includes(outermost!) && !hasEnded(pid));
    if (other !== undefined) {
      throw new Error(
        `process ${other}, which was not started with Cellar, is in the same group; with systemd, set Delegate=yes for Cellar's unit`,
      );
    }
    if (rounds > MOST_ROUNDS) throw new Error('its processes start others faster than Cellar can move them');
    makeGroup(below);
    for (const pid of pids) move(pid, below);
  }
}

/**
 * Makes a group in an existing one. @throws {Error} with the reason, which a recursive `mkdir` hides on a read-only file
 * system
 */
export function makeGroup(directory: string): void {
  try {
    mkdirSync(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

function move(pid: string, directory: string): void {
  try {
    writeFileSync(join(directory, PROCESSES), pid);
  } catch (error) {
    // The process has ended.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** Whether a process has ended. A process outside this PID namespace has the id 0, and counts as running. */
function hasEnded(pid: string): boolean {
  return pid !== '0' && !existsSync(`/proc/${pid}`);
}

function members(directory: string): string[] {
  return text(join(directory, PROCESSES)).split('\n').filter(Boolean);
}

/** Returns the ids of a process and its ancestors. */
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
