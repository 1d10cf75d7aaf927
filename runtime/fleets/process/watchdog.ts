// Detects a stuck process: the app computes for longer than its limit, or the process waits for ever. An app that computes
// blocks every socket of its process, even the socket `health`, which runs no app code. SIGTERM does not end such a process.
import type { Cell } from './cell.ts';

/** Time between two health checks of a busy process, in ms. */
const ASK_BUSY_MS = 1_000;
/** Time between two health checks of a process that is in use but not busy, in ms. */
const ASK_EVERY_MS = 5_000;
/** A process is busy if it used at least this CPU time between two samples, in ms. Samples are about a second apart. */
const BUSY_CPU_MS = 50;
/** A health check waits for at least this many times the app's CPU limit, because the app may get only 1/20 of a CPU. */
const LEAST_SHARE = 20;

/** When an unanswered health check shows that the process is stuck. */
interface Limits {
  /** Lower CPU limits are raised to this, in ms, because many short requests can delay an answer too. */
  leastCpuMs: number;
  /** Time without an answer and with almost no CPU use, in ms. */
  silentMs: number;
}

const LIMITS: Limits = { leastCpuMs: 2_000, silentMs: 60_000 };

/** Why a process is stuck. `cpu`: it exceeded its CPU limit. `silent`: it does not answer, and uses almost no CPU time. */
export type Stuck = 'cpu' | 'silent';

/** A health check that has no answer yet. Times are those of the clock `now`, in ms. */
interface Question {
  at: number;
  /** The process's CPU time at the start of the check, in ms; null until the first sample. */
  cpuMs: number | null;
  /** Since when the process has used almost no CPU time. */
  silentSince: number;
}

export class Watchdog {
  readonly #onStuck: (cell: Cell, why: Stuck) => void;
  readonly #limits: Limits;
  readonly #now: () => number;
  #cell: Cell | null = null;
  #question: Question | null = null;
  #askedAt = Number.NEGATIVE_INFINITY;
  #seen: Cell['usage'] = null;
  #busy = false;

  /**
   * @param onStuck called once for a stuck process, which the caller must end
   * @param now the clock, in ms
   */
  constructor(
    onStuck: (cell: Cell, why: Stuck) => void,
    limits = LIMITS,
    now: () => number = () => performance.now(),
  ) {
    this.#onStuck = onStuck;
    this.#limits = limits;
    this.#now = now;
  }

  /**
   * Checks the process. Call about once a second while it runs.
   * @param inUse whether something waits for the process: requests in flight, WebSockets, due work
   */
  look(cell: Cell, inUse: boolean): void {
    if (cell !== this.#cell) {
      this.#cell = cell;
      this.#question = null;
      this.#seen = null;
      this.#busy = false;
    }
    if (cell.usage !== this.#seen) {
      this.#busy = cell.usage!.cpuMs - (this.#seen?.cpuMs ?? 0) >= BUSY_CPU_MS;
      this.#seen = cell.usage;
    }
    if (this.#question !== null) {
      this.#judge(cell, this.#question);
      return;
    }
    const sinceAsked = this.#now() - this.#askedAt;
    if (sinceAsked >= (this.#busy ? ASK_BUSY_MS : inUse ? ASK_EVERY_MS : Number.POSITIVE_INFINITY))
      this.#ask(cell);
  }

  /** Forgets the pending health check, because the process may be blocked for a good reason. */
  pause(): void {
    this.#question = null;
  }

  #ask(cell: Cell): void {
    const at = this.#now();
    const question = { at, cpuMs: cell.usage?.cpuMs ?? null, silentSince: at };
    this.#askedAt = at;
    this.#question = question;
    const timeoutMs = Math.max(2 * this.#limits.silentMs, LEAST_SHARE * cell.cpuLimitMs);
    // The check is over, whether the process answered or the request failed.
    void cell.answers('health', timeoutMs).then(() => {
      if (this.#question === question) this.#question = null;
    });
  }

  #judge(cell: Cell, question: Question): void {
    const { leastCpuMs, silentMs } = this.#limits;
    const now = this.#now();
    if (this.#busy) question.silentSince = now;
    const usedBy = cell.usage?.cpuMs ?? null;
    question.cpuMs ??= usedBy;
    const burnt = usedBy === null ? 0 : usedBy - question.cpuMs!;
    const limitMs = Math.max(leastCpuMs, cell.cpuLimitMs);
    // Other threads of the process use CPU time too, so the elapsed time must reach the limit as well.
    if (burnt >= limitMs && now - question.at >= limitMs) this.#found(cell, question, 'cpu');
    else if (now - question.silentSince >= silentMs) this.#found(cell, question, 'silent');
  }

  #found(cell: Cell, question: Question, why: Stuck): void {
    // Prevents a second report, because the process is about to end.
    question.at = question.silentSince = Number.POSITIVE_INFINITY;
    this.#onStuck(cell, why);
  }
}
