// A control group for each app's process, so that the kernel itself holds its limit of memory: between two looks of the
// host, a second apart, a process could take gigabytes. Nothing happens on a machine that does not let this one make groups.
import { existsSync, readdirSync, rmdirSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { logRarely, reason } from '../log.ts';
import { ControlGroup } from './cgroup.ts';
import { delegate, makeGroup, ownGroup, type Place } from './cgroup-place.ts';

/** MiB beside the limit that the host looks for: what the kernel counts besides, such as pipes and files that are read. */
const SLACK_MB = 64;
/** Version 2: the weight of a process that works in the background, and that of any other. */
const WEIGHTS = { background: '1', other: '100' };

/**
 * Whose memory was used up when the kernel ended a process: the process's own (`limit`), or that of the machine or of a group
 * that Cellar is in (`machine`).
 */
export type MemoryEnd = 'limit' | 'machine';

interface Member {
  group: Promise<ControlGroup>;
  /** Why the kernel ended it, if it was for want of memory; known when it has ended. */
  killed: Promise<MemoryEnd | null>;
}

let groups: CellGroups | null = null;

/** Has each process that is named from now on get a group; `null`: none does. */
export function useCellGroups(found: CellGroups | null): void {
  groups = found;
}

/** Gives a process, which runs nothing of an app yet, a group until it has ended. */
export function limitCell(pid: number, exited: Promise<unknown>): void {
  groups?.add(pid, exited);
}

/**
 * For whose memory the kernel ends a process, as soon as it has ended; null when it does not, and where that is not known. To be
 * asked for while it runs.
 */
export function endsForMemory(pid: number): Promise<MemoryEnd | null> {
  return groups?.endsForMemory(pid) ?? Promise.resolve(null);
}

/** Has a process give way to all others, or no more, where its own group can say so. @returns whether it can */
export async function setInBackground(pid: number, is: boolean): Promise<boolean> {
  return (await groups?.setInBackground(pid, is)) ?? false;
}

/** The groups of the processes of one Cellar's apps. */
export class CellGroups {
  readonly #parent: Place;
  readonly #name: string;
  readonly #memoryMb: number;
  /** Whether each group has a share of the processors: in version 1, groups for those are others than those for memory. */
  readonly #haveShares: boolean;
  readonly #members = new Map<number, Member>();

  /** Use `openCellGroups`. */
  constructor(parent: Place, name: string, memoryMb: number, haveShares: boolean) {
    this.#parent = parent;
    this.#name = name;
    this.#memoryMb = memoryMb;
    this.#haveShares = haveShares;
  }

  add(pid: number, exited: Promise<unknown>): void {
    const group = this.#create(pid);
    // It may fail long before anybody asks.
    group.catch(() => {});
    const killed = exited.then(async () => {
      const { memoryKills, killsFromAbove } = await (await group).state();
      if (memoryKills > 0) return 'limit';
      return killsFromAbove > 0 ? 'machine' : null;
    });
    this.#members.set(pid, { group, killed });
    killed
      .catch((error: unknown) =>
        logRarely('warn', 'the memory of an app is limited by measuring alone', { error: reason(error) }),
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

  async setInBackground(pid: number, is: boolean): Promise<boolean> {
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

  /** Removes what is empty. What is not goes at the next start. @returns whether nothing is left */
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
 * The groups, or why there can be none. What a host that was killed left of them is removed.
 * @param name of them all; no other Cellar on this machine may have the same
 * @param memoryMb what a process may use, in MiB
 * @param root where `proc` and `sys` lie
 */
export function openCellGroups(name: string, memoryMb: number, root = '/'): CellGroups | string {
  try {
    // Each lies beside the group of the host, not in one of them all: it gives way only to those that it lies beside. Nor in
    // the group of builds, which gives way as a whole.
    const own = ownGroup('memory', root);
    if (own.version === 2) delegate(own.directory, 'memory');
    // It throws where none may be made.
    makeGroup(join(own.directory, `${prefix(name)}0`));
    sweep(own.directory, name);
    return new CellGroups(own, name, memoryMb, own.version === 2 && canShareProcessors(root));
  } catch (error) {
    return reason(error);
  }
}

/** Version 2: whether the groups beside this process's can have a share of the processors each. */
function canShareProcessors(root: string): boolean {
  try {
    const { version, directory } = ownGroup('cpu', root);
    if (version === 2) delegate(directory, 'cpu');
    return version === 2;
  } catch {
    return false;
  }
}

function prefix(name: string): string {
  return `${name}-cell-`;
}

/** Removes the groups of this name that are empty. @returns whether none is left */
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
    // Its processes are still ending.
    return false;
  }
}
