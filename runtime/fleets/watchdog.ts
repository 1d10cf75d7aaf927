// Finds a process that is stuck. An endless loop in a Worker stops every socket of its process, the one that runs no
// code of the app too, and takes no SIGTERM.
import type { Cell } from './cell.ts';

/** Looks between two questions, about a second apart. */
const LOOKS_BETWEEN = 5;
const ANSWER_MS = 2_000;
/** Questions in a row without an answer: 30 s, which is the CPU time that a Worker has elsewhere. */
const MISSED_LIMIT = 6;

export class Watchdog {
  readonly #onStuck: (cell: Cell) => void;
  readonly #limits: { looks: number; answerMs: number; missed: number };
  #cell: Cell | null = null;
  #looks = 0;
  #missed = 0;
  #asking = false;

  /** @param onStuck called once for a process that does not answer any more */
  constructor(
    onStuck: (cell: Cell) => void,
    limits = { looks: LOOKS_BETWEEN, answerMs: ANSWER_MS, missed: MISSED_LIMIT },
  ) {
    this.#onStuck = onStuck;
    this.#limits = limits;
  }

  /** To be called about once a second while the process has requests in flight, or due work: else nobody waits for it. */
  look(cell: Cell): void {
    if (cell !== this.#cell) {
      this.#cell = cell;
      this.#missed = 0;
    }
    if (this.#asking || ++this.#looks % this.#limits.looks !== 0) return;
    this.#asking = true;
    void cell.answers('health', this.#limits.answerMs).then((answered) => {
      this.#asking = false;
      if (cell !== this.#cell) return;
      this.#missed = answered ? 0 : this.#missed + 1;
      if (this.#missed === this.#limits.missed) this.#onStuck(cell);
    });
  }
}
