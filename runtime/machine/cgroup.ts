// Control groups: how much memory, and how many processes, what an app runs may have in all. Version 1 and version 2 of
// the kernel's interface, each where this machine has it; see cgroups(7).
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { log, reason } from '../log.ts';

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
  /** Processes that were killed because the group's memory was used up. */
  memoryKills: number;
  /** Times that a process or thread was refused. */
  tasksRefused: number;
}

type Controller = 'memory' | 'pids';
/** Where a controller keeps its groups. */
interface Place {
  version: 1 | 2;
  directory: string;
}
type Places = Partial<Record<Controller, Place>>;

const MB = 1024 * 1024;
const CONTROLLERS: Controller[] = ['memory', 'pids'];
/** The group that a host goes to so that the one it was in may have groups with limits. */
const ROOM = 'cellar-host';
const ROOM_AT_END = new RegExp(`/${ROOM}$`);
/** A group can be removed only when its last process has been reaped. */
const REMOVE_TRIES = 100;
const REMOVE_POLL_MS = 20;

/** The groups of one Cellar, below a group of its own in the one that this process belongs to. */
export class ControlGroups {
  readonly #parents: Places;

  /** Use `openControlGroups`. */
  constructor(parents: Places) {
    this.#parents = parents;
  }

  /** Whether this machine lets Cellar limit the memory of a group, and the number of its processes. */
  get limits(): { memory: boolean; tasks: boolean } {
    return { memory: this.#parents.memory !== undefined, tasks: this.#parents.pids !== undefined };
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

  /** Removes the group of them all. Its groups must have gone. Never throws. */
  close(): void {
    for (const { directory } of Object.values(this.#parents)) removeSync(directory);
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
    const enter = directories.map((_, index) => `echo $$ > "$${index + 1}/cgroup.procs"`).join(' && ');
    const script = `${enter} && shift ${directories.length} && exec "$@"`;
    return ['/bin/sh', '-c', script, 'sh', ...directories];
  }

  /** Puts a process into the group, and leaves those that it has started where they are. */
  async add(pid: number): Promise<void> {
    for (const directory of this.directories) {
      await writeFile(join(directory, 'cgroup.procs'), String(pid));
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
    const [used, kills, refused] = await Promise.all([
      memory === undefined ? 0 : memoryUsed(memory),
      memory === undefined
        ? 0
        : field(memory, memory.version === 2 ? 'memory.events' : 'memory.oom_control', 'oom_kill'),
      pids === undefined ? 0 : field(pids, 'pids.events', 'max'),
    ]);
    return { memoryBytes: used, memoryKills: kills, tasksRefused: refused };
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

/**
 * The groups of this Cellar, or why there can be none. What a host that was killed left of them is removed.
 * @param name of their common group; no other Cellar on this machine may have the same
 * @param root where `proc` and `sys` lie
 */
export function openControlGroups(name: string, root = '/'): ControlGroups | string {
  const lines = text(join(root, 'proc/self/cgroup')).split('\n');
  const parents: Places = {};
  const problems: string[] = [];
  for (const controller of CONTROLLERS) {
    try {
      const own = ownGroup(controller, lines, root);
      const directory = join(own.directory, name);
      if (own.version === 2) delegate(own.directory, controller);
      mkdirSync(directory, { recursive: true });
      for (const entry of readdirSync(directory, { withFileTypes: true })) {
        if (entry.isDirectory()) removeSync(join(directory, entry.name));
      }
      if (own.version === 2) delegate(directory, controller);
      parents[controller] = { ...own, directory };
    } catch (error) {
      problems.push(`${controller}: ${reason(error)}`);
    }
  }
  return problems.length === CONTROLLERS.length ? problems.join('; ') : new ControlGroups(parents);
}

/** Where the group of this process lies for a controller. A container sees its own group as the root, yet may be told the outer path. */
function ownGroup(controller: Controller, lines: string[], root: string): Place {
  const mounted = join(root, 'sys/fs/cgroup');
  const v1 = lines
    .map((line) => new RegExp(`^\\d+:(?:[^:]*,)?${controller}(?:,[^:]*)?:(.*)$`).exec(line)?.[1])
    .find((path) => path !== undefined);
  if (v1 !== undefined) {
    const directory = firstGroup([join(mounted, controller, v1), join(mounted, controller)]);
    if (directory !== undefined) return { version: 1, directory };
  }
  // A host before this one may have made room for its groups: then this process began in the group below.
  const v2 = lines
    .find((line) => line.startsWith('0::'))
    ?.slice('0::'.length)
    .replace(ROOM_AT_END, '');
  if (v2 !== undefined) {
    const directory = firstGroup([join(mounted, v2), mounted]);
    if (directory !== undefined && offers(directory, controller)) return { version: 2, directory };
  }
  throw new Error('this process has no control group for it');
}

function firstGroup(directories: string[]): string | undefined {
  return directories.find((directory) => existsSync(join(directory, 'cgroup.procs')));
}

function offers(directory: string, controller: Controller): boolean {
  return text(join(directory, 'cgroup.controllers')).trim().split(' ').includes(controller);
}

/** Version 2: lets the groups in `directory` have a controller. A group that does so may hold no process itself. */
function delegate(directory: string, controller: Controller): void {
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

/** Moves this process and those it was started by, such as npm, a group down, if the group has no others. */
function makeRoom(directory: string): void {
  const ours = ancestors();
  const members = text(join(directory, 'cgroup.procs')).trim().split('\n');
  const other = members.find((pid) => !ours.has(pid));
  if (other !== undefined) {
    throw new Error(
      `process ${other} is in the same group; with systemd, set Delegate=yes for Cellar's unit`,
    );
  }
  const below = join(directory, ROOM);
  mkdirSync(below, { recursive: true });
  for (const pid of members) writeFileSync(join(below, 'cgroup.procs'), pid);
}

/** The ids of this process and of those above it. */
function ancestors(): Set<string> {
  const pids = new Set<string>();
  for (let pid = String(process.pid); pid !== '0' && pid !== ''; ) {
    pids.add(pid);
    pid = /^PPid:\t(\d+)$/m.exec(text(`/proc/${pid}/status`))?.[1] ?? '';
  }
  return pids;
}

async function limitMemory({ version, directory }: Place, memoryMb: number | null): Promise<void> {
  const bytes = memoryMb === null ? null : String(memoryMb * MB);
  if (version === 2) {
    await writeFile(join(directory, 'memory.max'), bytes ?? 'max');
    await writeIfThere(join(directory, 'memory.swap.max'), bytes ?? 'max');
    return;
  }
  // Memory together with swap may never be below memory alone: lifted first, set last.
  const withSwap = join(directory, 'memory.memsw.limit_in_bytes');
  await writeIfThere(withSwap, '-1');
  await writeFile(join(directory, 'memory.limit_in_bytes'), bytes ?? '-1');
  await writeIfThere(withSwap, memoryMb === null ? '-1' : String(2 * memoryMb * MB));
}

/** Accounting of swap may be off. */
async function writeIfThere(path: string, content: string): Promise<void> {
  if (existsSync(path)) await writeFile(path, content);
}

async function memoryUsed(place: Place): Promise<number> {
  const [file, inactive] =
    place.version === 2
      ? ['memory.current', 'inactive_file']
      : ['memory.usage_in_bytes', 'total_inactive_file'];
  const used = await readFile(join(place.directory, file!), 'utf8').catch(() => '0');
  return Math.max(0, Number(used) - (await field(place, 'memory.stat', inactive!)));
}

/** The number behind a name in one of a group's files. */
async function field({ directory }: Place, file: string, name: string): Promise<number> {
  const lines = (await readFile(join(directory, file), 'utf8').catch(() => '')).split('\n');
  const line = lines.find((candidate) => candidate.startsWith(`${name} `));
  return Number(line?.slice(name.length + 1) ?? 0);
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

/** What is still used is left for the next start. */
function removeSync(directory: string): void {
  try {
    rmdirSync(directory);
  } catch {}
}

function text(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
