// A control group for each cell (an app's workerd process): the kernel enforces its memory limit, and its CPU weight sets
// its priority. The host checks memory only once a second, and a process could allocate gigabytes in between. Does nothing
// where this process cannot make groups.
import { existsSync, readdirSync, rmdirSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { logRarely, reason } from '../log.ts';
import { ControlGroup } from './cgroup.ts';
import { delegate, makeGroup, ownControlGroup, type Place } from './cgroup-place.ts';

/**
 * MiB by which the kernel's limit exceeds the limit that the host checks: the kernel also counts pipes, file cache and more.
 */
const SLACK_MB = 64;
/** CPU weights in version 2 of control groups: of a low-priority process, and of any other. */
const WEIGHTS = { background: '1', other: '100' };

/**
 * Whose memory was used up when the kernel killed a process: its own (`limit`), or that of the machine or of a group above
 * Cellar's (`machine`).
 */
export type MemoryEnd = 'limit' | 'machine';

interface Member {
  group: Promise<ControlGroup>;
  /** Resolves after the process has ended: why the kernel killed it for lack of memory, or null when it did not. */
  killed: Promise<MemoryEnd | null>;
}

let groups: CellGroups | null = null;

/** Sets the groups of processes that start from now on; `null`: they get none. */
export function useCellGroups(found: CellGroups | null): void {
  groups = found;
}

/** Gives a process its own group until it ends. Call it before the process runs any code of an app. */
export function limitCell(pid: number, exited: Promise<unknown>): void {
  groups?.add(pid, exited);
}

/**
 * Resolves when the process has ended. If the kernel killed it for lack of memory, returns whose memory was used up.
 * Otherwise, or if it has no group, returns null. Call it while the process runs: after its end it has no group.
 */
export function endsForMemory(pid: number): Promise<MemoryEnd | null> {
  return groups?.endsForMemory(pid) ?? Promise.resolve(null);
}

/** Sets low or normal priority of an app's process by the weight of its group. @returns whether that succeeded */
export async function setLowPriority(pid: number, is: boolean): Promise<boolean> {
  return (await groups?.setLowPriority(pid, is)) ?? false;
}

/** The groups of one Cellar's app processes. */
export class CellGroups {
  readonly #parent: Place;
  readonly #name: string;
  readonly #memoryMb: number;
  /** Whether each group has a CPU weight; false in version 1, whose groups for memory have none. */
  readonly #haveShares: boolean;
  readonly #members = new Map<number, Member>();

  /** Call `openCellGroups` instead. */
  constructor(parent: Place, name: string, memoryMb: number, haveShares: boolean) {
    this.#parent = parent;
    this.#name = name;
    this.#memoryMb = memoryMb;
    this.#haveShares = haveShares;
  }

  add(pid: number, exited: Promise<unknown>): void {
    const group = this.#create(pid);
    // Handles a rejection now, because `killed` awaits the group only after the process has ended.
    group.catch(() => {});
    const killed = exited.then(async () => {
      const { memoryKills, killsFromAbove } = await (await group).state();
      if (memoryKills > 0) return 'limit';
      return killsFromAbove > 0 ? 'machine' : null;
    });
    this.#members.set(pid, { group, killed });
    killed
      .catch((error: unknown) =>
        logRarely('warn', 'an app has no control group: its memory limit is enforced only by measuring', {
          error: reason(error),
        }),
      )
      .then(async () => {
        this.#members.delete(pid);
        await (await group).remove();
      })
      .catch(() => {});
  }

  async endsForMemory(pid: number): Promise<MemoryEnd | null> {
    return (await this.#members.get(pid)?.killed.catch(() => null)) ?? null;
  }

  async setLowPriority(pid: number, is: boolean): Promise<boolean> {
    const member = this.#members.get(pid);
    if (!this.#haveShares || member === undefined) return false;
    try {
      await member.group;
      const [idle, weight] = ['cpu.idle', 'cpu.weight'].map((file) => join(this.#directory(pid), file));
      if (existsSync(idle!)) await writeFile(idle!, is ? '1' : '0');
      else await writeFile(weight!, is ? WEIGHTS.background : WEIGHTS.other);
      return true;
    } catch {
      return false;
    }
  }

  /** Removes empty groups; the next start of the host removes the others. @returns whether all were removed */
  close(): boolean {
    return sweep(this.#parent.directory, this.#name);
  }

  #directory(pid: number): string {
    return join(this.#parent.directory, `${prefix(this.#name)}${pid}`);
  }

  async #create(pid: number): Promise<ControlGroup> {
    const directory = this.#directory(pid);
    await mkdir(directory, { recursive: true });
    const group = new ControlGroup({ memory: { ...this.#parent, directory } });
    await group.limit({ memoryMb: this.#memoryMb + SLACK_MB, tasks: null });
    await group.add(pid);
    return group;
  }
}

/**
 * Opens the groups, or returns why there can be none. Removes the groups of a host that was killed.
 * @param name of the groups, unique among the Cellars of this machine
 * @param memoryMb limit of a process, in MiB
 * @param root the directory with `proc` and `sys`
 */
export function openCellGroups(name: string, memoryMb: number, root = '/'): CellGroups | string {
  try {
    // In version 2, each group is a sibling of the host's group, because a weight counts only among siblings. In a common
    // parent group, a low-priority app would compete with other apps, but not with the host.
    const own = ownControlGroup('memory', root);
    if (own.version === 2) delegate(own.directory, 'memory');
    // Makes a group as a test: this throws where no group may be made. `sweep` removes it.
    makeGroup(join(own.directory, `${prefix(name)}0`));
    sweep(own.directory, name);
    return new CellGroups(own, name, memoryMb, own.version === 2 && canShareProcessors(root));
  } catch (error) {
    return reason(error);
  }
}

/** Whether siblings of this process's group can have CPU weights: only in version 2. */
function canShareProcessors(root: string): boolean {
  try {
    const { version, directory } = ownControlGroup('cpu', root);
    if (version === 2) delegate(directory, 'cpu');
    return version === 2;
  } catch {
    return false;
  }
}

function prefix(name: string): string {
  return `${name}-cell-`;
}

/** Removes the empty groups of app processes of this Cellar. @returns whether all were removed */
function sweep(directory: string, name: string): boolean {
  const found = readdirSync(directory, { withFileTypes: true }).filter(
    (entry) => entry.isDirectory() && entry.name.startsWith(prefix(name)),
  );
  return found.map((entry) => removeIfEmpty(join(directory, entry.name))).every(Boolean);
}

function removeIfEmpty(directory: string): boolean {
  try {
    rmdirSync(directory);
    return true;
  } catch {
    // It still has processes, which are ending.
    return false;
  }
}
