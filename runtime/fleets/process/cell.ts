// A cell: one workerd process that runs. It is asked how it does, and ended; `start-cell.ts` starts it.

import type { Job } from '../../processes/child.ts';
import type { Usage } from '../../processes/proc.ts';
import { askSocket } from '../../sockets/ask-socket.ts';
import { socketPath } from './cell-directories.ts';
import type { ExitReason } from './cell-output.ts';

/** How a process ended. */
export interface CellExit extends ExitReason {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** Longest answer to how much work there is, in bytes. */
const COUNT_BYTES = 32;
/** Time an idle process gets after SIGTERM, in ms. It takes 4–18; one in an endless loop never ends by itself. */
const STOP_GRACE_MS = 2_000;

/** What an app may compute without a pause that names no limit, in ms. */
export const DEFAULT_CPU_MS = 30_000;

export class Cell {
  /** When it was ready, as `performance.now()`. */
  readonly startedAt = performance.now();
  /** What its start took, in ms. */
  readonly startMs: number;
  /** Settles when the process has gone and its output has been read. Never rejects. */
  readonly exited: Promise<CellExit>;
  /** What the process had used when that was last read; null before. */
  usage: Usage | null = null;
  /** CPU time that its app may compute for without a pause, in ms. */
  cpuLimitMs = DEFAULT_CPU_MS;
  /** Of its processor time: what was taken by `takeCpuMs`. */
  #takenCpuMs = 0;
  readonly #doors: Record<string, string>;
  readonly #child: Job;
  readonly #runDirectory: string;
  #killedFor: string | null = null;

  /**
   * @param doors names of those sockets at which other apps reach the Worker, by what is asked there
   * @param from when its start began, as `performance.now()`
   */
  constructor(
    child: Job,
    exited: Promise<CellExit>,
    { runDirectory, doors = {} }: { runDirectory: string; doors?: Record<string, string> },
    from: number,
  ) {
    this.startMs = this.startedAt - from;
    this.#doors = doors;
    this.exited = exited.then((exit) =>
      this.#killedFor === null
        ? exit
        : { ...exit, reason: `${this.#killedFor}: ${exit.reason}`, limit: this.#killedFor },
    );
    this.#child = child;
    this.#runDirectory = runDirectory;
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** The processor time that it used between the call before and the last reading of `usage`, in ms. */
  takeCpuMs(): number {
    const before = this.#takenCpuMs;
    this.#takenCpuMs = this.usage?.cpuMs ?? before;
    return this.#takenCpuMs - before;
  }

  socketPath(socket: string): string {
    return socketPath(this.#runDirectory, socket);
  }

  /** Where other apps reach the Worker, by what is asked there. */
  get doors(): Record<string, { socketPath: string }> {
    const doors = Object.entries(this.#doors);
    return Object.fromEntries(doors.map(([door, socket]) => [door, { socketPath: this.socketPath(socket) }]));
  }

  /** Whether the process answers on a socket within `timeoutMs`; any status will do. */
  answers(socket: string, timeoutMs: number): Promise<boolean> {
    const request = { method: 'HEAD', limitBytes: 0, signal: AbortSignal.timeout(timeoutMs) };
    return askSocket(this.socketPath(socket), request).then(
      () => true,
      () => false,
    );
  }

  /**
   * Pieces of work that go on after their answers (`waitUntil`). 0 for a static site, and when there is no answer within
   * `timeoutMs`.
   */
  workAfterAnswers(timeoutMs: number): Promise<number> {
    return this.#count('/', timeoutMs);
  }

  /** Of that: how much runs in Workflows, whose steps an end of the process cuts. */
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

  /** Ends it: SIGTERM, then SIGKILL to its group after a grace. Route nothing to it any more before the call. */
  async stop(): Promise<CellExit> {
    signalGroup(this.#child, 'SIGTERM');
    const kill = setTimeout(() => this.kill(), STOP_GRACE_MS);
    try {
      return await this.exited;
    } finally {
      clearTimeout(kill);
    }
  }

  /** Ends it at once. The reason of its exit begins with `why`, where its last lines could not tell. */
  kill(why: string | null = null): void {
    this.#killedFor ??= why;
    signalGroup(this.#child, 'SIGKILL');
  }
}

/** Sends a signal to all processes of a cell, unless its first one has ended. */
export function signalGroup({ hasEnded, end }: Job, signal: NodeJS.Signals): void {
  // A pid that has been reaped may be somebody else's by now.
  if (!hasEnded()) end(signal);
}
