// Serializes the operations on an app's process.

export class Operations {
  readonly #closing = new AbortController();
  #last: Promise<unknown> = Promise.resolve();
  #pending = 0;

  /** Aborted by `close`: the running operation stops. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Whether an operation runs or waits. */
  get busy(): boolean {
    return this.#pending > 0;
  }

  /** Runs `operation` after all earlier ones, failed ones included. @throws the reason of `closing` after `close` */
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

  /** Aborts the running operation, then runs `last`. Nothing runs afterwards. */
  close(last: () => Promise<void>): Promise<void> {
    this.#closing.abort(new Error('the host is stopping'));
    const ended = this.#last.then(last);
    this.#last = ended;
    return ended;
  }
}
