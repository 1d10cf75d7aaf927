// Sends the lines of a log to a follower, who may read slowly or stop reading.
import type { Writable } from 'node:stream';

/** Maximum characters that wait for a follower. A socket, too, counts the characters of strings. */
const WAITING_LENGTH = 256 * 1024;
const LEFT_OUT = '… (some lines are not shown here: they come faster than they are read)\n';

export class Follower {
  readonly #output: Writable;
  /** Lines of this turn of the event loop. One write for all saves system calls: hundreds of lines may come at once. */
  #lines = '';
  #hasReported = false;

  constructor(output: Writable) {
    this.#output = output;
  }

  /** Queues a line without its line end. While too much waits at the output, drops lines and reports that once. */
  write(line: string): void {
    if (this.#output.writableLength + this.#lines.length > WAITING_LENGTH) {
      if (this.#hasReported) return;
      this.#hasReported = true;
      this.#add(LEFT_OUT);
    } else this.#add(`${line}\n`);
  }

  /** Writes the queued lines, then `text`, and ends the output. */
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
