// Where this process's control groups lie, in version 1 and version 2 of the kernel's interface, and how version 2 lets
// groups below them have limits. See cgroups(7).
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

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
/** How often the processes of a group are moved out of it: each that is not moved yet may start another. */
const MOST_ROUNDS = 100;

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

/**
 * How many processes and threads the group of this process may have, and those above it as far as they are seen: the least of
 * their limits, such as that of a container. `null`: no limit.
 * @param root where `proc` and `sys` lie
 */
export function mostTasks(root = '/'): number | null {
  const limits: number[] = [];
  try {
    for (
      let { directory } = ownGroup('pids', root);
      existsSync(join(directory, PROCESSES));
      directory = dirname(directory)
    ) {
      // The outermost group has no such file. `max` is no number.
      const limit = Number.parseInt(text(join(directory, 'pids.max')), 10);
      if (!Number.isNaN(limit)) limits.push(limit);
    }
  } catch {
    // There are no groups.
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
 * Version 2: lets the groups in `directory` have a controller. A group that does so may hold no process itself, so that this
 * one goes a group down, with what it has started and what was started with it, such as npm.
 * @throws {Error} when it may not, or when the group has other processes
 */
export function delegate(directory: string, controller: Controller): void {
  const enabled = join(directory, 'cgroup.subtree_control');
  if (text(enabled).trim().split(' ').includes(controller)) return;
  // Before anything is written: the kernel lets a group that holds processes share out some controllers, and makes it a
  // threaded one by that, which can limit no memory any more. The outermost group has no type and may hold processes.
  if (existsSync(join(directory, 'cgroup.type'))) makeRoom(directory);
  writeFileSync(enabled, `+${controller}`);
}

/** @throws {Error} when the group has processes that were not started together with this one */
function makeRoom(directory: string): void {
  const below = join(directory, ROOM);
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
    if (rounds > MOST_ROUNDS) throw new Error('processes are started faster than they can be moved');
    makeGroup(below);
    for (const pid of pids) move(pid, below);
  }
}

/** Makes a group in one that is there. @throws {Error} that says why not, as a recursive `mkdir` does not where nothing may be written */
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
    // It has ended.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

/** A process of another namespace is named 0. */
function hasEnded(pid: string): boolean {
  return pid !== '0' && !existsSync(`/proc/${pid}`);
}

function members(directory: string): string[] {
  return text(join(directory, PROCESSES)).split('\n').filter(Boolean);
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
