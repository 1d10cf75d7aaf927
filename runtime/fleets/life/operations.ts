// Runs what is done to an app's process one after another.

export class Operations {
  readonly #closing = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  #pending = 0;

  /** Aborted by `close`: what runs gives up. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Whether an operation runs or waits. */
  get busy(): boolean {
    return this.#pending > 0;
  }

  /** Runs `operation` after those before it, however they ended. @throws the reason of `closing` after `close` */
  async run<T>(operation: () => Promise<T>): Promise<T> {
    this.#pending++;
    const result = this.#last.then(() => {
      this.closing.throwIfAborted();
      return operation();
    });
    this.#last = result.catch(() => {});
    try {
      return await result;
    } finally {
      this.#pending--;
    }
  }

  /** Gives up what is under way and runs `last` when that has ended. Nothing runs afterwards. */
  close(last: () => Promise<void>): Promise<void> {
    this.#closing.abort(new Error('the host is stopping'));
    const ended = this.#last.then(last);
    this.#last = ended;
    return ended;
  }
}
