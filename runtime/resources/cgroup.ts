// Control groups: limit the memory and processes of an app's commands, and set who waits when CPU time is short. Supports
// version 1 and version 2 of the kernel's interface; see cgroups(7).
import { readdirSync, rmdirSync, writeFileSync } from 'node:fs';
import { mkdir, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { log, reason } from '../log.ts';
import { field, limitMemory, memoryKills, memoryPeak, memoryUsed, weights } from './cgroup-files.ts';
import {
  type Controller,
  delegate,
  home,
  makeGroup,
  ownControlGroup,
  type Place,
  PROCESSES,
} from './cgroup-place.ts';

/** Limits of a group. `null`: no limit, besides those of the groups above it. */
export interface GroupLimits {
  /** MiB of memory, tmpfs files included. As much again may be swapped out. */
  memoryMb: number | null;
  /** Processes and threads. */
  tasks: number | null;
}

/** Usage of a group, and counts of events since it was made. */
export interface GroupState {
  /** Bytes of memory that the kernel cannot reclaim at once. */
  memoryBytes: number;
  /** Peak memory in bytes; 0 where the kernel does not record it. */
  memoryPeakBytes: number;
  /** Number of processes killed because the group's own memory limit was reached. */
  memoryKills: number;
  /** Number of processes killed because the memory of the machine, or of a group above, was used up. */
  killsFromAbove: number;
  /** How often the start of a process or thread failed because of the limit `tasks`. */
  tasksRefused: number;
}

type Places = Partial<Record<Controller, Place>>;

const CONTROLLERS: Controller[] = ['memory', 'pids', 'cpu'];
/**
 * Names of the groups for low-priority processes that have no group of their own: busy apps, the bundler, and the probe of
 * CPU time. The bundler and the probe have separate groups, so that they do not wait for busy apps. Each has the same share
 * as a build.
 */
const LOW_PRIORITY = { apps: 'background', bundler: 'bundler', probe: 'probe' };
export type LowPriorityKind = keyof typeof LOW_PRIORITY;
/** Maximum tries to remove a group: it fails until the group's last process has been reaped. */
const REMOVE_TRIES = 100;
const REMOVE_POLL_MS = 20;

/**
 * The control groups of one Cellar, except those of apps' processes. They are in one common group, a child of the group that
 * Cellar was started in. The common group runs only on idle CPU time, unless `LowPriorityGroup.floor` gives it a minimum
 * share.
 */
export class ControlGroups {
  readonly #parents: Places;
  /** The directory of this process's group; `null` where CPU shares cannot be set. */
  readonly #home: string | null;
  /** Why some limits are not available; empty: all are. */
  readonly problems: string;

  /** Call `openControlGroups` instead. */
  constructor(parents: Places, home: string | null, problems: string) {
    this.#parents = parents;
    this.#home = home;
    this.problems = problems;
  }

  /** Whether Cellar can limit a group's memory and number of processes, and set CPU shares, on this machine. */
  get limits(): { memory: boolean; tasks: boolean; processors: boolean } {
    const { memory, pids, cpu } = this.#parents;
    return { memory: memory !== undefined, tasks: pids !== undefined, processors: cpu !== undefined };
  }

  /**
   * Makes a group, or sets the limits of an existing one of that name.
   * @param name unique in this Cellar, such as `build-<deploy id>`
   */
  async create(name: string, limits: GroupLimits): Promise<ControlGroup> {
    const places: Places = {};
    for (const controller of CONTROLLERS) {
      const parent = this.#parents[controller];
      if (parent === undefined) continue;
      const directory = join(parent.directory, name);
      await mkdir(directory, { recursive: true });
      places[controller] = { ...parent, directory };
    }
    const group = new ControlGroup(places);
    await group.limit(limits);
    return group;
  }

  /** Returns the groups for low-priority processes; `null` where CPU shares cannot be set. */
  background(): LowPriorityGroup | null {
    const { cpu } = this.#parents;
    if (cpu === undefined || this.#home === null) return null;
    for (const name of Object.values(LOW_PRIORITY)) makeGroup(join(cpu.directory, name));
    return new LowPriorityGroup(cpu, this.#home);
  }

  /**
   * Removes the common group and its low-priority groups. Waits up to 2 s for the processes of each to end. All other groups
   * must be gone. Never rejects.
   */
  async close(): Promise<void> {
    for (const { directory } of Object.values(this.#parents)) {
      const below = Object.values(LOW_PRIORITY).map((name) => join(directory, name));
      for (const path of [...below, directory]) {
        // A group that stays in use is left for the next start.
        if (!removeSync(path)) await removeWhenEmpty(path).catch(() => {});
      }
    }
  }
}

/** A group of processes with limits. Children belong to it too. */
export class ControlGroup {
  readonly #places: Places;

  /** Call `ControlGroups.create` instead. */
  constructor(places: Places) {
    this.#places = places;
  }

  /** Its directories: one, or in version 1 one for each controller. */
  get directories(): string[] {
    return [...new Set(Object.values(this.#places).map(({ directory }) => directory))];
  }

  /** The command prefix that runs a command in the group. It needs the host's own rights. */
  get enter(): string[] {
    const { directories } = this;
    const enter = directories.map((_, index) => `echo $$ > "$${index + 1}/${PROCESSES}"`).join(' && ');
    const script = `${enter} && shift ${directories.length} && exec "$@"`;
    return ['/bin/sh', '-c', script, 'sh', ...directories];
  }

  /** Moves a process into the group, without its existing children. */
  async add(pid: number): Promise<void> {
    for (const directory of this.directories) {
      await writeFile(join(directory, PROCESSES), String(pid));
    }
  }

  async limit({ memoryMb, tasks }: GroupLimits): Promise<void> {
    const { memory, pids } = this.#places;
    if (memory !== undefined) await limitMemory(memory, memoryMb);
    if (pids !== undefined) await writeFile(join(pids.directory, 'pids.max'), String(tasks ?? 'max'));
  }

  /** Returns the group's usage and its events so far. Zeros for what this machine does not count, and after removal. */
  async state(): Promise<GroupState> {
    const { memory, pids } = this.#places;
    const [used, peak, kills, refused] = await Promise.all([
      memory === undefined ? 0 : memoryUsed(memory),
      memory === undefined ? 0 : memoryPeak(memory),
      memory === undefined ? { own: 0, above: 0 } : memoryKills(memory),
      pids === undefined ? 0 : field(pids, 'pids.events', 'max'),
    ]);
    return {
      memoryBytes: used,
      memoryPeakBytes: peak,
      memoryKills: kills.own,
      killsFromAbove: kills.above,
      tasksRefused: refused,
    };
  }

  /** Removes the group. Its processes must have ended. Never rejects: logs a group that cannot be removed. */
  async remove(): Promise<void> {
    for (const directory of this.directories) {
      await removeWhenEmpty(directory).catch((error: unknown) =>
        log('warn', 'a control group could not be removed', { path: directory, error: reason(error) }),
      );
    }
  }
}

/**
 * The groups for processes that have low priority for a while. Moving a process blocks forks on this machine for some 10 ms.
 */
export class LowPriorityGroup {
  readonly #parent: Place;
  readonly #home: string;

  /** Call `ControlGroups.background` instead. */
  constructor(parent: Place, home: string) {
    this.#parent = parent;
    this.#home = home;
  }

  /** @throws {Error} when the process has ended */
  add(pid: number, as: LowPriorityKind = 'apps'): Promise<void> {
    return writeFile(join(this.#parent.directory, LOW_PRIORITY[as], PROCESSES), String(pid));
  }

  /** Returns the process to normal priority. @throws {Error} when it has ended */
  release(pid: number): Promise<void> {
    return writeFile(join(this.#home, PROCESSES), String(pid));
  }

  /** Sets or removes the minimum CPU share of all groups of this Cellar together. */
  async floor(has: boolean): Promise<void> {
    for (const [path, value] of weights(this.#parent, has)) await writeFile(path, value);
  }
}

/**
 * Opens the groups of this Cellar, or returns why there can be none. Removes the groups of a host that was killed.
 * @param name of the common group, unique among the Cellars of this machine
 * @param root the directory with `proc` and `sys`
 */
export function openControlGroups(name: string, root = '/'): ControlGroups | string {
  const parents: Places = {};
  const problems = new Map<string, Controller[]>();
  let where: string | null = null;
  for (const controller of CONTROLLERS) {
    try {
      const own = ownControlGroup(controller, root);
      const directory = join(own.directory, name);
      if (own.version === 2) delegate(own.directory, controller);
      makeGroup(directory);
      for (const entry of readdirSync(directory, { withFileTypes: true })) {
        if (entry.isDirectory()) removeSync(join(directory, entry.name));
      }
      if (own.version === 2) delegate(directory, controller);
      parents[controller] = { ...own, directory };
      if (controller === 'cpu') {
        for (const [path, value] of weights(parents[controller], false)) writeFileSync(path, value);
        where = home(own);
      }
    } catch (error) {
      const why = reason(error);
      problems.set(why, [...(problems.get(why) ?? []), controller]);
    }
  }
  const why = [...problems]
    .map(([problem, controllers]) => `${controllers.join(', ')}: ${problem}`)
    .join('; ');
  return Object.keys(parents).length === 0 ? why : new ControlGroups(parents, where, why);
}

async function removeWhenEmpty(directory: string): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await rmdir(directory);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === 'ENOENT') return;
      if (code !== 'EBUSY' || tries === REMOVE_TRIES) throw error;
      await sleep(REMOVE_POLL_MS);
    }
  }
}

/** Removes a group if it is empty. @returns whether it is removed, or did not exist */
function removeSync(directory: string): boolean {
  try {
    rmdirSync(directory);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}
