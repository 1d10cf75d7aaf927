// Serializes the operations on an app's process.
import { SerialQueue } from '../../queues/serial-queue.ts';

export class Operations {
  readonly #closing = new AbortController();
  readonly #queue = new SerialQueue();

  /** Aborted by `close`. The running operation uses it to stop. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Whether an operation runs or waits. */
  get busy(): boolean {
    return this.#queue.busy;
  }

  /** Runs `operation` after all earlier ones, failed ones included. @throws the reason of `closing` after `close` */
  run<T>(operation: () => Promise<T>): Promise<T> {
    return this.#queue.run(() => {
      this.closing.throwIfAborted();
      return operation();
    });
  }

  /** Aborts the running operation with `why`, then runs `last`. Nothing runs afterwards. */
  close(last: () => Promise<void>, why = 'the host is stopping'): Promise<void> {
    this.#closing.abort(new Error(why));
    return this.#queue.run(last);
  }
}
