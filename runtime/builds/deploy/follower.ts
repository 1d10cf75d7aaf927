// Hands the lines of a log to a follower, who may read slower than they come, or not at all.
import type { Writable } from 'node:stream';

/** Bytes that wait for a follower. */
const WAITING_BYTES = 256 * 1024;
const LEFT_OUT = '… (some lines are not shown here: they come faster than they are read)\n';

/** Writes the lines of a log to `output`. */
export class Follower {
  readonly #output: Writable;
  /** The lines of this turn of the loop: each writing is a call of the system, and they may come by hundreds. */
  #lines = '';
  #isTold = false;

  constructor(output: Writable) {
    this.#output = output;
  }

  /** Writes a line, given without its end, soon. While more than 256 KiB wait at the output, lines are left out, which is said once. */
  write(line: string): void {
    if (this.#output.writableLength + this.#lines.length > WAITING_BYTES) {
      if (this.#isTold) return;
      this.#isTold = true;
      this.#add(LEFT_OUT);
    } else this.#add(`${line}\n`);
  }

  /** Writes what waits, then `text`, and ends the output. */
  end(text: string): void {
    this.#lines += text;
    this.#flush();
    this.#output.end();
  }

  #add(text: string): void {
    if (this.#lines === '') setImmediate(() => this.#flush());
    this.#lines += text;
  }

  #flush(): void {
    if (this.#lines !== '') this.#output.write(this.#lines);
    this.#lines = '';
  }
}
