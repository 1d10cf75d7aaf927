// A cell is one running workerd process. `Cell` sends requests of the host to it, and ends it; `start-cell.ts` starts it.

import type { Job } from '../../processes/child.ts';
import type { Usage } from '../../processes/proc.ts';
import { askSocket } from '../../sockets/ask-socket.ts';
import { QUEUE_SOCKET } from '../config/cell-config.ts';
import { TAILS_SOCKET } from '../config/tails/tails.ts';
import { socketPath } from './cell-directories.ts';
import type { ExitReason } from './cell-output.ts';

/** How a process ended. */
export interface CellExit extends ExitReason {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** Maximum size of an answer with a number of tasks, in bytes. */
const COUNT_BYTES = 32;
/**
 * Time from SIGTERM to SIGKILL, in ms. An idle process usually ends in 4 to 18 ms; one in an endless loop ignores SIGTERM.
 */
const STOP_GRACE_MS = 2_000;
/** Time limit to send the waiting events to tail Workers before SIGTERM, in ms. */
const TAILS_MS = 2_000;
/** Time limit for queues to store, before SIGTERM, that the host ends the process and so their running batches, in ms. */
const QUEUES_MS = 1_000;

/** Default limit of uninterrupted CPU time, in ms. */
export const DEFAULT_CPU_MS = 30_000;

export interface CellSockets {
  runDirectory: string;
  /** Names of all sockets. */
  sockets: string[];
  /** Names of the sockets where other apps reach the Worker, by kind of call. */
  callSockets?: Record<string, string>;
}

export class Cell {
  /** When the process was ready, as `performance.now()`. */
  readonly startedAt = performance.now();
  /** Duration of its start, in ms. */
  readonly startMs: number;
  /** Resolves when the process has ended and its output was read. Never rejects. */
  readonly exited: Promise<CellExit>;
  /** The process's resource use at the latest sample; null before the first. */
  usage: Usage | null = null;
  /** Limit of its app's uninterrupted CPU time, in ms. */
  cpuLimitMs = DEFAULT_CPU_MS;
  /** CPU time that `takeCpuMs` has returned so far, in ms. */
  #takenCpuMs = 0;
  readonly #callSockets: Record<string, string>;
  readonly #child: Job;
  readonly #runDirectory: string;
  readonly #hasTails: boolean;
  readonly #hasQueues: boolean;
  #killedFor: string | null = null;

  /** @param from when the start of the process began, as `performance.now()` */
  constructor(
    child: Job,
    exited: Promise<CellExit>,
    { runDirectory, sockets, callSockets = {} }: CellSockets,
    from: number,
  ) {
    this.startMs = this.startedAt - from;
    this.#callSockets = callSockets;
    this.exited = exited.then((exit) =>
      this.#killedFor === null
        ? exit
        : { ...exit, reason: `${this.#killedFor}: ${exit.reason}`, limit: this.#killedFor },
    );
    this.#child = child;
    this.#runDirectory = runDirectory;
    this.#hasTails = sockets.includes(TAILS_SOCKET);
    this.#hasQueues = sockets.includes(QUEUE_SOCKET);
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Returns the CPU time since the previous call, as of the latest `usage`, in ms. */
  takeCpuMs(): number {
    const before = this.#takenCpuMs;
    this.#takenCpuMs = this.usage?.cpuMs ?? before;
    return this.#takenCpuMs - before;
  }

  socketPath(socket: string): string {
    return socketPath(this.#runDirectory, socket);
  }

  /** Sockets where other apps reach the Worker, by kind of call. */
  get callSockets(): Record<string, { socketPath: string }> {
    const callSockets = Object.entries(this.#callSockets);
    return Object.fromEntries(
      callSockets.map(([call, socket]) => [call, { socketPath: this.socketPath(socket) }]),
    );
  }

  /** Whether the process answers on a socket within `timeoutMs`, with any status. */
  answers(socket: string, timeoutMs: number): Promise<boolean> {
    const request = { method: 'HEAD', limitBytes: 0, signal: AbortSignal.timeout(timeoutMs) };
    return askSocket(this.socketPath(socket), request).then(
      () => true,
      () => false,
    );
  }

  /**
   * Returns the number of pending tasks, such as `waitUntil` after a response, or Workflow steps. Returns 0 for a static
   * site, and if the process does not answer within `timeoutMs`.
   */
  workAfterAnswers(timeoutMs: number): Promise<number> {
    return this.#count('/', timeoutMs);
  }

  /** Returns how many of the pending tasks are Workflow steps. The end of the process interrupts them. */
  stepsAtWork(timeoutMs: number): Promise<number> {
    return this.#count('/steps', timeoutMs);
  }

  #count(path: string, timeoutMs: number): Promise<number> {
    const request = { path, limitBytes: COUNT_BYTES, signal: AbortSignal.timeout(timeoutMs) };
    return askSocket(this.socketPath('health'), request).then(
      ({ text }) => Number(text) || 0,
      () => 0,
    );
  }

  /**
   * Ends the process: SIGTERM, then SIGKILL to its process group after a grace time. Events for tail Workers are sent first.
   * A queue batch that this interrupts does not count as an attempt, if the process answers. The caller must already route
   * no requests to the process.
   */
  async stop(): Promise<CellExit> {
    if (this.#hasTails) await this.#announceEnd(TAILS_SOCKET, TAILS_MS);
    if (this.#hasQueues) await this.#announceEnd(QUEUE_SOCKET, QUEUES_MS);
    signalGroup(this.#child, 'SIGTERM');
    const kill = setTimeout(() => this.kill(), STOP_GRACE_MS);
    try {
      return await this.exited;
    } finally {
      clearTimeout(kill);
    }
  }

  /** Announces the end of the process to one of its services. Resolves with the answer, or after an error or `timeoutMs`. */
  #announceEnd(socket: string, timeoutMs: number): Promise<unknown> {
    const request = { limitBytes: 0, signal: AbortSignal.timeout(timeoutMs) };
    return askSocket(this.socketPath(socket), request).catch(() => {});
  }

  /** Sends SIGKILL to all processes of the cell. The first `why` becomes the start of the exit reason. */
  kill(why: string | null = null): void {
    this.#killedFor ??= why;
    signalGroup(this.#child, 'SIGKILL');
  }
}

/** Sends a signal to the process group of a cell, unless its first process has ended. */
export function signalGroup({ hasEnded, end }: Job, signal: NodeJS.Signals): void {
  // After the end, the process id may already belong to another process.
  if (!hasEnded()) end(signal);
}
