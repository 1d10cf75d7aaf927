// Leases a process of the app to a part of the host, without waking the app.

import { reason } from '../../log.ts';
import { aborted } from '../../threads/aborted.ts';
import { DATABASE_SOCKET } from '../config/cell-config.ts';
import { LOAD_SOCKET } from '../config/cluster/load-service.ts';
import { stop } from '../life/ending.ts';
import type { Leased, Running } from '../life/phase.ts';
import { NO_MEMORY, type Supervisor } from '../life/supervisor.ts';
import type { Cell } from '../process/cell.ts';
import { type Lease, Leases } from './leases.ts';

/** Longest time to wait for a process and use it, in ms. */
const LEASE_MS = 30_000;
/**
 * Maximum time for a process to answer after a lease whose work may block it, in ms. Without an answer, the process is
 * killed.
 */
const BLOCKED_MS = 1_000;
/**
 * Maximum number of leases of an app that are awaited or held at once. Each keeps its holder's data in the host's memory.
 */
const MOST_LEASES = 16;

/** What a lease gives its holder. */
export interface LeasedCell {
  /** Path of the process's socket for the host. Cellar's own entrypoint answers there; no visitor's request arrives. */
  socketPath: string;
  /** Path of the socket for SQL of the app's databases. Nothing listens there when the live release has no database. */
  databasePath: string;
  /**
   * Path of the socket where the host asks the process to load Durable Objects from the bucket. Nothing listens there for an app
   * whose data is on this machine.
   */
  loadPath: string;
  /**
   * Aborted when the lease's time limit expires, or the process must end, before the lease is released. A crash does not
   * abort it.
   */
  signal: AbortSignal;
}

export interface LeaseOptions {
  /**
   * Whether the holder's work may block the process. If the process is still blocked when the time is over, it is killed.
   */
  mayBlock?: boolean;
  /** Longest time to wait for a process and use it, in ms. Default: 30 s. */
  ms?: number;
}

export class Leasing {
  readonly #process: Supervisor;
  readonly #limits: { ms: number; most: number };
  #count = 0;

  constructor(process: Supervisor, limits = { ms: LEASE_MS, most: MOST_LEASES }) {
    this.#process = process;
    this.#limits = limits;
  }

  /** See `Fleet.withCell`. */
  async withCell<T>(
    purpose: string,
    use: (cell: LeasedCell) => Promise<T>,
    { mayBlock = false, ms = this.#limits.ms }: LeaseOptions = {},
  ): Promise<T> {
    const { most } = this.#limits;
    if (this.#count >= most)
      throw new Error(`${purpose}: ${most} other calls use the app's process already; try again`);
    this.#count++;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new Error(`${purpose} did not end within ${ms / 1000} s`)), ms);
    try {
      return await this.#use(await this.#taken(late.signal, mayBlock), late.signal, use, mayBlock);
    } finally {
      clearTimeout(timer);
      this.#count--;
    }
  }

  async #use<T>(
    { lease, phase }: Taken,
    late: AbortSignal,
    use: (cell: LeasedCell) => Promise<T>,
    mayBlock: boolean,
  ): Promise<T> {
    const signal = AbortSignal.any([late, lease.signal]);
    try {
      return await Promise.race([
        use(leasedCell(phase.cell, signal)),
        aborted(signal),
        phase.cell.exited.then(({ reason }) => Promise.reject(new Error(reason))),
      ]);
    } catch (error) {
      if (mayBlock && late.aborted) await endBlocked(phase.cell, reason(late.reason));
      throw error;
    } finally {
      lease.release();
    }
  }

  /** Returns a lease. If `late` aborts first, rejects, and releases a lease that is taken afterwards. */
  async #taken(late: AbortSignal, mayBlock: boolean): Promise<Taken> {
    const taking = this.#take(late, mayBlock);
    try {
      return await Promise.race([taking, aborted(late)]);
    } catch (error) {
      taking.then(
        ({ lease }) => lease.release(),
        () => {},
      );
      throw error;
    }
  }

  async #take(late: AbortSignal, mayBlock: boolean): Promise<Taken> {
    return (
      taken(this.#process, mayBlock) ??
      (await this.#process.operations.run(async () => {
        late.throwIfAborted();
        await this.#bringUp();
        const found = taken(this.#process, mayBlock);
        if (found === null) throw new Error(this.#whyNone());
        return found;
      }))
    );
  }

  /**
   * Starts a process for an idle or stopped app with a release. A sleeping app stays asleep; a stopped one takes no
   * requests.
   */
  async #bringUp(): Promise<void> {
    const { phase, wanted } = this.#process;
    if (phase.name !== 'idle' && phase.name !== 'stopped') return;
    if (this.#process.live === null) return;
    if (!this.#process.hasMemory()) throw new Error(NO_MEMORY);
    if (phase.name === 'stopped') await this.#lend(wanted);
    else await this.#process.bringUpResting(wanted);
  }

  /** Starts a process of a stopped app. The process ends with its last lease. */
  async #lend(wanted: AbortSignal): Promise<void> {
    const { operations } = this.#process;
    const cell = await this.#process.launchLive(AbortSignal.any([operations.closing, wanted]));
    const isLent = () => this.#process.phase === phase;
    const leave = async () => {
      if (isLent() && phase.leases.held === 0) await stop(this.#process);
    };
    const leases = new Leases(() => void operations.run(leave).catch(() => {}));
    const phase: Leased = { name: 'leased', cell, leases };
    this.#process.enter(phase);
    void cell.exited.then(() => {
      if (isLent()) this.#process.enter({ name: 'stopped' });
    });
  }

  #whyNone(): string {
    const { live, lastError } = this.#process;
    if (live === null) return 'the app has no process: nothing has been deployed yet';
    return `the app has no process${lastError === null ? '' : `: ${lastError}`}`;
  }
}

/** Kills a process that does not answer, because a lease holder's work blocks it. */
async function endBlocked(cell: Cell, why: string): Promise<void> {
  if (await cell.answers('health', BLOCKED_MS)) return;
  cell.kill(why);
  await cell.exited;
}

function leasedCell(cell: Cell, signal: AbortSignal): LeasedCell {
  return {
    socketPath: cell.socketPath('health'),
    databasePath: cell.socketPath(DATABASE_SOCKET),
    loadPath: cell.socketPath(LOAD_SOCKET),
    signal,
  };
}

interface Taken {
  lease: Lease;
  phase: Running | Leased;
}

/** Returns a lease of the process that runs; null when none runs. */
function taken({ phase }: Supervisor, mayBlock: boolean): Taken | null {
  if (phase.name !== 'running' && phase.name !== 'leased') return null;
  return { lease: phase.leases.hold(mayBlock), phase };
}
