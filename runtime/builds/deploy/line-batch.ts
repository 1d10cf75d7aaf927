// Batches lines of a deploy's log for the control plane.

/**
 * Maximum characters of a batch, with line ends. At one batch in 100 ms, a deploy sends at most 80 Ki characters a second.
 */
const BATCH_LENGTH = 8 * 1024;

/** A batch of lines. When it is full, it drops the oldest lines and adds one line that says so. */
export class LineBatch {
  #lines: string[] = [];
  #length = 0;
  #leftOut = 0;

  add(line: string): void {
    this.#lines.push(line);
    this.#length += line.length + 1;
    // Not at each line, because dropping copies the lines that stay.
    if (this.#length > 4 * BATCH_LENGTH) this.#shorten();
  }

  /** Returns the lines since the previous call, after a note if lines were dropped. */
  take(): string[] {
    this.#shorten();
    const note = `… (${this.#leftOut} lines are not shown here: they come faster than they are sent)`;
    const lines = this.#leftOut > 0 ? [note, ...this.#lines] : this.#lines;
    this.#lines = [];
    this.#length = 0;
    this.#leftOut = 0;
    return lines;
  }

  /** Drops the oldest lines until the others fit, but never the newest one. */
  #shorten(): void {
    let first = 0;
    while (this.#length > BATCH_LENGTH && first < this.#lines.length - 1) {
      this.#length -= this.#lines[first++]!.length + 1;
    }
    this.#lines = this.#lines.slice(first);
    this.#leftOut += first;
  }
}
