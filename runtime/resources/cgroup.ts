// Control groups: how much memory, and how many processes, what an app runs may have in all, and who waits when the
// processors are short. Version 1 and version 2 of the kernel's interface, each where this machine has it; see cgroups(7).
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
  ownGroup,
  type Place,
  PROCESSES,
} from './cgroup-place.ts';

/** The most that a group may have. `null`: as much as the groups above it. */
export interface GroupLimits {
  /** MiB of memory, files of a tmpfs included. As much again may be swapped out. */
  memoryMb: number | null;
  /** Processes and threads. */
  tasks: number | null;
}

/** What a group uses and has run into so far. */
export interface GroupState {
  /** Bytes of memory, without what the kernel can take back at once. */
  memoryBytes: number;
  /** The most bytes of memory that it had; 0 where the kernel does not keep it. */
  memoryPeakBytes: number;
  /** Processes that were killed because the group's own memory was used up, not the machine's or that of a group above it. */
  memoryKills: number;
  /** Processes that were killed because the machine's memory was used up, or that of a group above, not the group's own. */
  killsFromAbove: number;
  /** Times that a process or thread was refused. */
  tasksRefused: number;
}

type Places = Partial<Record<Controller, Place>>;

const CONTROLLERS: Controller[] = ['memory', 'pids', 'cpu'];
/**
 * The groups of what works in the background and is in no other: of busy apps, and of what must not wait for them. One has as
 * much as another, and as a build.
 */
const BACKGROUND = { apps: 'background', bundler: 'bundler', probe: 'probe' };
export type InBackground = keyof typeof BACKGROUND;
/** A group can be removed only when its last process has been reaped. */
const REMOVE_TRIES = 100;
const REMOVE_POLL_MS = 20;

/**
 * The groups of one Cellar, below a group of its own in the one that this process belongs to. What runs in them works in
 * the background: it gets the processors when nobody outside of them wants them.
 */
export class ControlGroups {
  readonly #parents: Places;
  /** What this process is in; `null` where the processors cannot be shared out. */
  readonly #home: string | null;
  /** Why not all of them can be limited in each way; empty: they can. */
  readonly problems: string;

  /** Use `openControlGroups`. */
  constructor(parents: Places, home: string | null, problems: string) {
    this.#parents = parents;
    this.#home = home;
    this.problems = problems;
  }

  /** Whether this machine lets Cellar limit the memory of a group and the number of its processes, and share out the processors. */
  get limits(): { memory: boolean; tasks: boolean; processors: boolean } {
    const { memory, pids, cpu } = this.#parents;
    return { memory: memory !== undefined, tasks: pids !== undefined, processors: cpu !== undefined };
  }

  /**
   * Makes a group, or takes the one of that name and gives it these limits.
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

  /** Where processes can be put to work in the background; `null` where the processors cannot be shared out. */
  background(): BackgroundGroup | null {
    const { cpu } = this.#parents;
    if (cpu === undefined || this.#home === null) return null;
    for (const name of Object.values(BACKGROUND)) makeGroup(join(cpu.directory, name));
    return new BackgroundGroup(cpu, this.#home);
  }

  /**
   * Removes the group of them all, once what works in the background has ended: at once where nothing does any more. Its
   * other groups must have gone. Never rejects.
   */
  async close(): Promise<void> {
    for (const { directory } of Object.values(this.#parents)) {
      const below = Object.values(BACKGROUND).map((name) => join(directory, name));
      for (const path of [...below, directory]) {
        // What is used for long is left for the next start.
        if (!removeSync(path)) await removeWhenEmpty(path).catch(() => {});
      }
    }
  }
}

/** A group of processes with limits. Whatever a process of it starts belongs to it too. */
export class ControlGroup {
  readonly #places: Places;

  /** Use `ControlGroups.create`. */
  constructor(places: Places) {
    this.#places = places;
  }

  /** Where it lies: one directory, and in version 1 one for each controller. */
  get directories(): string[] {
    return [...new Set(Object.values(this.#places).map(({ directory }) => directory))];
  }

  /** The words before a command that make it run in the group. They need the host's own rights. */
  get enter(): string[] {
    const { directories } = this;
    const enter = directories.map((_, index) => `echo $$ > "$${index + 1}/${PROCESSES}"`).join(' && ');
    const script = `${enter} && shift ${directories.length} && exec "$@"`;
    return ['/bin/sh', '-c', script, 'sh', ...directories];
  }

  /** Puts a process into the group, and leaves those that it has started where they are. */
  async add(pid: number): Promise<void> {
    for (const directory of this.directories) {
      await writeFile(join(directory, PROCESSES), String(pid));
    }
  }

  /** Changes its limits. */
  async limit({ memoryMb, tasks }: GroupLimits): Promise<void> {
    const { memory, pids } = this.#places;
    if (memory !== undefined) await limitMemory(memory, memoryMb);
    if (pids !== undefined) await writeFile(join(pids.directory, 'pids.max'), String(tasks ?? 'max'));
  }

  /** What it uses, and has run into since it was made. Zeros for what this machine does not count, and once it is removed. */
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

  /** Removes it. Its processes must have ended. Never rejects: what cannot be removed is left, and the log says so. */
  async remove(): Promise<void> {
    for (const directory of this.directories) {
      await removeWhenEmpty(directory).catch((error: unknown) =>
        log('warn', 'a control group could not be removed', { path: directory, error: reason(error) }),
      );
    }
  }
}

/** Processes that work in the background for a while. While one is moved, what forks on this machine waits for some 10 ms. */
export class BackgroundGroup {
  readonly #parent: Place;
  readonly #home: string;

  /** Use `ControlGroups.background`. */
  constructor(parent: Place, home: string) {
    this.#parent = parent;
    this.#home = home;
  }

  /** @throws {Error} when the process has gone */
  add(pid: number, as: InBackground = 'apps'): Promise<void> {
    return writeFile(join(this.#parent.directory, BACKGROUND[as], PROCESSES), String(pid));
  }

  /** Treats the process like all others again. @throws {Error} when it has gone */
  release(pid: number): Promise<void> {
    return writeFile(join(this.#home, PROCESSES), String(pid));
  }

  /** Gives all groups of this Cellar together a floor, or none: then they get what others leave. */
  async floor(has: boolean): Promise<void> {
    for (const [path, value] of weights(this.#parent, has)) await writeFile(path, value);
  }
}

/**
 * The groups of this Cellar, or why there can be none. What a host that was killed left of them is removed.
 * @param name of their common group; no other Cellar on this machine may have the same
 * @param root where `proc` and `sys` lie
 */
export function openControlGroups(name: string, root = '/'): ControlGroups | string {
  const parents: Places = {};
  const problems = new Map<string, Controller[]>();
  let where: string | null = null;
  for (const controller of CONTROLLERS) {
    try {
      const own = ownGroup(controller, root);
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

/** @returns whether the group is not there any more */
function removeSync(directory: string): boolean {
  try {
    rmdirSync(directory);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
}
