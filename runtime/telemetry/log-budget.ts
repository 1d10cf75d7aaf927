// How many lines of one app's log are kept. What an app did not use it may use at once later.

/** Lines of an app that are kept in a second, and for how many seconds it can save them up. */
export const LINES_PER_S = 2_000;
const SAVED_S = 4;

export class LogBudget {
  #lines = LINES_PER_S * SAVED_S;
  #filledAt: number;
  #dropped = 0;

  /** @param now as `performance.now()` has it */
  constructor(now: number) {
    this.#filledAt = now;
  }

  /** Whether one more line is kept. One that is not is counted. */
  takes(now: number): boolean {
    if (now !== this.#filledAt) {
      const since = Math.max(0, now - this.#filledAt) / 1000;
      this.#lines = Math.min(this.#lines + since * LINES_PER_S, LINES_PER_S * SAVED_S);
      this.#filledAt = now;
    }
    if (this.#lines < 1) {
      this.#dropped++;
      return false;
    }
    this.#lines--;
    return true;
  }

  /** Counts lines that were dropped elsewhere. */
  drop(lines: number): void {
    this.#dropped += lines;
  }

  /** Whether it would be the same if it began anew: nothing was used, nothing is to be told. */
  isUnused(now: number): boolean {
    return (
      this.#dropped === 0 &&
      this.#lines + ((now - this.#filledAt) / 1000) * LINES_PER_S >= LINES_PER_S * SAVED_S
    );
  }

  /** The lines that were dropped since the last call. */
  takeDropped(): number {
    const dropped = this.#dropped;
    this.#dropped = 0;
    return dropped;
  }
}
