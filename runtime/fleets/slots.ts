// Who may start a process now. Starts use all the processor they get: a hundred at once would all be slow.

/** A start that the host could not make, through no fault of the app. */
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
   * @param timeoutMs time for all of a start: the wait for its turn, and what it takes then
   */
  constructor(count: number, timeoutMs: number) {
    this.#free = count;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Runs `work` when its turn has come, first come first served. It gets what is left of the time, in ms.
   * @throws {NoTurn} when it does not come in time; the signal's reason when that aborts first
   */
  async run<T>(work: (leftMs: number) => Promise<T>, signal: AbortSignal): Promise<T> {
    const end = performance.now() + this.#timeoutMs;
    await this.#enter(signal);
    try {
      return await work(Math.max(1, Math.round(end - performance.now())));
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
