// Finds a process that is stuck: one whose app computes for longer than it may, or that waits for something that never comes.
// An app that computes stops every socket of its process, the one that runs no code of the app too, and takes no SIGTERM.
import type { Cell } from './cell.ts';

/** Time between two questions to a process that uses the processor, and to one that only has requests, in ms. */
const ASK_BUSY_MS = 1_000;
const ASK_EVERY_MS = 5_000;
/** CPU time between two samples, about a second apart, from which on a process counts as busy; in ms. */
const BUSY_CPU_MS = 50;
/** A question waits for at most so many times the CPU time that the app may use: it gets a share of the processors alone. */
const LEAST_SHARE = 20;

/** When a question without an answer shows that the process is stuck, in ms. */
interface Limits {
  /** Lower limits of CPU time count as this one: many short requests delay an answer, too. */
  leastCpuMs: number;
  /** The process has used next to no CPU time for so long. */
  silentMs: number;
}

const LIMITS: Limits = { leastCpuMs: 2_000, silentMs: 60_000 };

/** Why a process is stuck: `cpu` when it has computed for longer than its limit. */
export type Stuck = 'cpu' | 'silent';

interface Question {
  at: number;
  /** What the process had used by then; null until that is known. */
  cpuMs: number | null;
  /** Since when the process has used no CPU time. */
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
   * @param onStuck called once for a process that does not answer any more
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
   * To be called about once a second while there is a process.
   * @param inUse whether somebody waits for it: requests in flight, WebSockets, due work
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

  /** Forgets what the process was asked: it may be silent for a while. */
  pause(): void {
    this.#question = null;
  }

  #ask(cell: Cell): void {
    const at = this.#now();
    const question = { at, cpuMs: cell.usage?.cpuMs ?? null, silentSince: at };
    this.#askedAt = at;
    this.#question = question;
    const timeoutMs = Math.max(2 * this.#limits.silentMs, LEAST_SHARE * cell.cpuLimitMs);
    // Answered or refused, it is asked again.
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
    // Its other threads use CPU time too, so the time that has gone by counts as well.
    if (burnt >= limitMs && now - question.at >= limitMs) this.#found(cell, question, 'cpu');
    else if (now - question.silentSince >= silentMs) this.#found(cell, question, 'silent');
  }

  #found(cell: Cell, question: Question, why: Stuck): void {
    // Asked no more: it is about to end.
    question.at = question.silentSince = Number.POSITIVE_INFINITY;
    this.#onStuck(cell, why);
  }
}
