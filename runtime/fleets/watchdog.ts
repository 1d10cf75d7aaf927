// Finds a process that is stuck. An endless loop in a Worker stops every socket of its process, the one that runs no
// code of the app too, and takes no SIGTERM.
import type { Cell } from './cell.ts';

/** Time between two questions to a process that uses the processor, and to one that only has requests, in ms. */
const ASK_BUSY_MS = 1_000;
const ASK_EVERY_MS = 5_000;
/** CPU time between two samples, about a second apart, from which on a process counts as busy; in ms. */
const BUSY_CPU_MS = 50;

/** When a question without an answer shows that the process is stuck, in ms. */
interface Limits {
  /** It has used this much CPU time since it was asked. A process that waits for its turn on a busy machine has not. */
  cpuMs: number;
  /** And this much time has gone by, since its other threads use CPU time too. */
  afterMs: number;
  /** Or this much time has gone by, whatever it used: it waits for something that never comes. */
  silentMs: number;
}

const LIMITS: Limits = { cpuMs: 5_000, afterMs: 8_000, silentMs: 60_000 };

interface Question {
  at: number;
  /** What the process had used by then; null until that is known. */
  cpuMs: number | null;
}

export class Watchdog {
  readonly #onStuck: (cell: Cell) => void;
  readonly #limits: Limits;
  #cell: Cell | null = null;
  #question: Question | null = null;
  #askedAt = Number.NEGATIVE_INFINITY;
  #seen: Cell['usage'] = null;
  #busy = false;

  /** @param onStuck called once for a process that does not answer any more */
  constructor(onStuck: (cell: Cell) => void, limits = LIMITS) {
    this.#onStuck = onStuck;
    this.#limits = limits;
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
    const sinceAsked = performance.now() - this.#askedAt;
    if (sinceAsked >= (this.#busy ? ASK_BUSY_MS : inUse ? ASK_EVERY_MS : Number.POSITIVE_INFINITY))
      this.#ask(cell);
  }

  /** Forgets what the process was asked: it may be silent for a while. */
  pause(): void {
    this.#question = null;
  }

  #ask(cell: Cell): void {
    const question = { at: performance.now(), cpuMs: cell.usage?.cpuMs ?? null };
    this.#askedAt = question.at;
    this.#question = question;
    // Answered or refused, it is asked again.
    void cell.answers('health', 2 * this.#limits.silentMs).then(() => {
      if (this.#question === question) this.#question = null;
    });
  }

  #judge(cell: Cell, question: Question): void {
    const { cpuMs, afterMs, silentMs } = this.#limits;
    const waited = performance.now() - question.at;
    const usedBy = cell.usage?.cpuMs ?? null;
    question.cpuMs ??= usedBy;
    const burnt = usedBy === null ? 0 : usedBy - question.cpuMs!;
    if (!(waited >= afterMs && burnt >= cpuMs) && waited < silentMs) return;
    // Asked no more: it is about to end.
    question.at = Number.POSITIVE_INFINITY;
    this.#onStuck(cell);
  }
}
