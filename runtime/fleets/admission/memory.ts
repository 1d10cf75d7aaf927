// Decides whether there is memory for one more process, and which processes use too much. Each sample also updates the
// priority of the processes by their CPU use.
import { log, reason } from '../../log.ts';
import { readUsage } from '../../processes/processes.ts';
import { type Memory, readMemory } from '../../resources/memory.ts';
import type { Cell } from '../process/cell.ts';
import type { CoreUse } from '../process/core-use.ts';

const MB = 1024 * 1024;
/** Default share of the memory of the container (or machine) that may be used. */
const DEFAULT_SHARE = 0.8;
/**
 * A process that uses at most this many bytes is never ended to free memory for others. A new process is assumed to use
 * this much.
 */
const MODEST_BYTES = 64 * MB;
/** Shortest time between two log lines about the limit, in ms, because memory use may oscillate around the limit. */
const WARN_EVERY_MS = 60_000;

/** The memory gauge's view of an app's process and of the processes that later replace it. Only one of them runs at a time. */
export interface MemoryUser {
  /** Private memory of the process at the last sample, in bytes. While no process runs: that of the previous process. */
  footprint: number;
  /** Ends its process because other apps need the memory. `why`: the text for the app's log. */
  evict: (why: string) => void;
  coreUse: CoreUse;
}

export class MemoryGauge {
  readonly #root: string;
  readonly #limitMb: number;
  readonly #cellMb: number;
  readonly #cells = new Map<Cell, MemoryUser>();
  #used = 0;
  #limit = 0;
  #sampling = false;
  #warnedAt = Number.NEGATIVE_INFINITY;

  /**
   * @param limitMb memory that the container may use, in MiB; 0: 80 % of the memory that it has
   * @param cellMb memory that one process of an app may use, in MiB
   * @param root where `proc` and `sys` are mounted
   */
  constructor(limitMb: number, cellMb: number, root = '/') {
    this.#root = root;
    this.#limitMb = limitMb;
    this.#cellMb = cellMb;
    this.#take(readMemory(root));
  }

  /** The latest sample, in bytes. `inCells` is the private memory of the apps' processes; `cells` is their number. */
  get figures(): { used: number; limit: number; cells: number; inCells: number } {
    const eaters = [...this.#cells.values()];
    const inCells = eaters.reduce((sum, { footprint }) => sum + footprint, 0);
    return { used: this.#used, limit: this.#limit, cells: eaters.length, inCells };
  }

  /** Whether the container uses more than it may. */
  get over(): boolean {
    return this.#used > this.#limit;
  }

  /** Watches the memory of an app's process until it ends. */
  watch(cell: Cell, eater: MemoryUser): void {
    this.#cells.set(cell, eater);
    eater.coreUse.begin(cell.pid, cell.startedAt - cell.startMs);
    void cell.exited.then(() => this.#cells.delete(cell));
  }

  /**
   * Whether an app may start a process. When memory is short, an app below its share may, and processes over their share are
   * evicted for it. An app over its share may not.
   */
  admits(eater: MemoryUser): boolean {
    if (!this.over) return true;
    const leaving = this.#whoLeavesFor(eater);
    if (leaving === null) return false;
    for (const { footprint, evict } of leaving) {
      evict(
        `the host is short of memory (RUNNER_FLEET_MAX_RSS_MB): the app's process, which used ${mb(footprint)} MiB, was ended for other apps`,
      );
    }
    return true;
  }

  /**
   * Samples memory use, and kills each process over its limit. Call about once a second. Does nothing while the previous
   * call still runs. Never rejects.
   */
  async sample(): Promise<void> {
    if (this.#sampling) return;
    this.#sampling = true;
    try {
      const cells = [...this.#cells.keys()];
      const { memory, processes } = await readUsage(
        this.#root,
        cells.map(({ pid }) => pid),
      );
      this.#take(memory);
      for (const [index, cell] of cells.entries()) this.#weigh(cell, processes[index] ?? null);
    } catch (error) {
      log('warn', 'the memory in use could not be read', { error: reason(error) });
    } finally {
      this.#sampling = false;
    }
  }

  /**
   * Returns the processes to evict for a new process, largest first. Returns null if the new process is over its share, or
   * if the evictions would not free enough memory.
   */
  #whoLeavesFor({ footprint }: MemoryUser): MemoryUser[] | null {
    const running = [...this.#cells.values()];
    const inCells = running.reduce((sum, other) => sum + other.footprint, 0);
    const share = Math.max(MODEST_BYTES, (this.#limit - this.#used + inCells) / (running.length + 1));
    if (footprint > share) return null;
    const hungry = running.filter((other) => other.footprint > share);
    hungry.sort((a, b) => b.footprint - a.footprint);
    const leaving: MemoryUser[] = [];
    let missing = this.#used + MODEST_BYTES - this.#limit;
    while (missing > 0) {
      const next = hungry.shift();
      if (next === undefined) return null;
      leaving.push(next);
      missing -= next.footprint;
    }
    return leaving;
  }

  #weigh(cell: Cell, usage: Cell['usage']): void {
    const eater = this.#cells.get(cell);
    if (eater === undefined || usage === null) return;
    cell.usage = usage;
    eater.footprint = usage.privateBytes;
    eater.coreUse.look(usage.cpuMs);
    if (usage.privateBytes <= this.#cellMb * MB) return;
    cell.kill(
      `the app used ${mb(usage.privateBytes)} MiB of memory, more than RUNNER_CELL_MAX_MB (${this.#cellMb}) allows`,
    );
  }

  /**
   * Records the limit, and the memory in use: that of the container, or of the host's own process if it is larger. Without a
   * set limit, memory that other members of a parent group have taken counts as used.
   */
  #take({ total, used, free }: Memory): void {
    const isSet = this.#limitMb > 0;
    this.#limit = isSet ? this.#limitMb * MB : total * DEFAULT_SHARE;
    this.#used = Math.max(isSet ? used : total - free, process.memoryUsage.rss());
    if (!this.over || performance.now() - this.#warnedAt < WARN_EVERY_MS) return;
    this.#warnedAt = performance.now();
    log(
      'warn',
      'more memory is in use than RUNNER_FLEET_MAX_RSS_MB allows: apps that must start answer 503 until an idle app with more memory ends',
      { used_mb: mb(this.#used), limit_mb: mb(this.#limit) },
    );
  }
}

function mb(bytes: number): number {
  return Math.round(bytes / MB);
}
