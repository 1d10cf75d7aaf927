// A control group for each app's process, so that the kernel itself holds its limit of memory: between two looks of the
// host, a second apart, a process could take gigabytes. Nothing happens on a machine that does not let this one make groups.
import { existsSync, mkdirSync, readdirSync, rmdirSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { logRarely, reason } from '../log.ts';
import { ControlGroup } from './cgroup.ts';
import { delegate, ownGroup, type Place } from './cgroup-place.ts';

/** MiB beside the limit that the host looks for: what the kernel counts besides, such as pipes and files that are read. */
const SLACK_MB = 64;
/** Version 2: the weight of a process that works in the background, and that of any other. */
const WEIGHTS = { background: '1', other: '100' };

interface Member {
  group: Promise<ControlGroup>;
  /** Whether the kernel ended it for its memory; known when it has ended. */
  killed: Promise<boolean>;
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

/** Whether the kernel ends a process because of its memory, as soon as it has ended. To be asked for while it runs. */
export function endsForMemory(pid: number): Promise<boolean> {
  return groups?.endsForMemory(pid) ?? Promise.resolve(false);
}

/** Has a process give way to all others, or no more, where its own group can say so. @returns whether it can */
export async function setInBackground(pid: number, is: boolean): Promise<boolean> {
  return (await groups?.setInBackground(pid, is)) ?? false;
}

/** The groups of the processes of one Cellar's apps. */
export class CellGroups {
  readonly #place: Place;
  readonly #memoryMb: number;
  readonly #members = new Map<number, Member>();

  /** Use `openCellGroups`. */
  constructor(place: Place, memoryMb: number) {
    this.#place = place;
    this.#memoryMb = memoryMb;
  }

  add(pid: number, exited: Promise<unknown>): void {
    const group = this.#create(pid);
    // It may fail long before anybody asks.
    group.catch(() => {});
    const killed = exited.then(async () => {
      const { memoryKills } = await (await group).state();
      return memoryKills > 0;
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

  async endsForMemory(pid: number): Promise<boolean> {
    return (await this.#members.get(pid)?.killed.catch(() => false)) ?? false;
  }

  async setInBackground(pid: number, is: boolean): Promise<boolean> {
    // In version 1 groups of processors are others than those of memory.
    if (this.#place.version === 1 || !this.#members.has(pid)) return false;
    const directory = this.#directory(pid);
    const idle = join(directory, 'cpu.idle');
    const [path, value] = existsSync(idle)
      ? [idle, is ? '1' : '0']
      : [join(directory, 'cpu.weight'), is ? WEIGHTS.background : WEIGHTS.other];
    return writeFile(path, value).then(
      () => true,
      () => false,
    );
  }

  /** Where they all lie. */
  get directory(): string {
    return this.#place.directory;
  }

  /** Removes what is empty. What is not goes at the next start. */
  close(): void {
    sweep(this.#place.directory);
    removeIfEmpty(this.#place.directory);
  }

  #directory(pid: number): string {
    return join(this.#place.directory, String(pid));
  }

  async #create(pid: number): Promise<ControlGroup> {
    const directory = this.#directory(pid);
    await mkdir(directory, { recursive: true });
    const group = new ControlGroup({ memory: { ...this.#place, directory } });
    await group.limit({ memoryMb: this.#memoryMb + SLACK_MB, tasks: null });
    await group.add(pid);
    return group;
  }
}

/**
 * The groups, or why there can be none. What a host that was killed left of them is removed.
 * @param name of the directory of them all; no other Cellar on this machine may have the same
 * @param memoryMb what a process may use, in MiB
 * @param root where `proc` and `sys` lie
 */
export function openCellGroups(name: string, memoryMb: number, root = '/'): CellGroups | string {
  try {
    const own = ownGroup('memory', root);
    // Not below the group of builds, which works in the background.
    const directory = join(own.directory, `${name}-cells`);
    mkdirSync(directory, { recursive: true });
    sweep(directory);
    if (own.version === 2) {
      for (const each of [own.directory, directory]) {
        delegate(each, 'memory');
        delegate(each, 'cpu');
      }
    }
    return new CellGroups({ ...own, directory }, memoryMb);
  } catch (error) {
    return reason(error);
  }
}

function sweep(directory: string): void {
  for (const entry of readdirSync(directory, { withFileTypes: true }))
    if (entry.isDirectory()) removeIfEmpty(join(directory, entry.name));
}

function removeIfEmpty(directory: string): void {
  try {
    rmdirSync(directory);
  } catch {
    // Its processes are still ending.
  }
}
