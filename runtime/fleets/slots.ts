// Who may start a process now. Starts use all the processor they get: a hundred at once would all be slow.

/** A start whose turn did not come in time. */
export class NoTurn extends Error {}

interface Waiter {
  enter: () => void;
}

export class Slots {
  readonly #timeoutMs: number;
  readonly #waiting = new Set<Waiter>();
  #free: number;

  /**
   * @param count starts at once
   * @param timeoutMs longest wait for a turn
   */
  constructor(count: number, timeoutMs: number) {
    this.#free = count;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Runs `work` when its turn has come, first come first served.
   * @throws {NoTurn} when it does not come in time; the signal's reason when that aborts first
   */
  async run<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#enter(signal);
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  #enter(signal: AbortSignal): Promise<void> | void {
    signal.throwIfAborted();
    if (this.#free > 0) {
      this.#free--;
      return;
    }
    return new Promise((resolve, reject) => {
      const settle = (outcome: () => void) => {
        this.#waiting.delete(waiter);
        clearTimeout(timer);
        signal.removeEventListener('abort', abort);
        outcome();
      };
      const abort = () => settle(() => reject(signal.reason));
      const waiter = { enter: () => settle(resolve) };
      const late = new NoTurn(
        `no turn to start came within ${this.#timeoutMs / 1000} s: others start too slowly`,
      );
      const timer = setTimeout(() => settle(() => reject(late)), this.#timeoutMs);
      signal.addEventListener('abort', abort, { once: true });
      this.#waiting.add(waiter);
    });
  }

  #leave(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#free++;
    else next.enter();
  }
}
