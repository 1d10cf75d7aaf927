// A lease keeps an app's process running while a part of the host uses the process. An open request has the same effect.

/** One holder's right to use a process. */
export interface Lease {
  /** Aborted when the process must end and the lease was not released in time. A crash of the process does not abort it. */
  signal: AbortSignal;
  /** Ends the lease. Call it once. */
  release: () => void;
}

/** The leases on one process. */
export class Leases {
  readonly #ended = new AbortController();
  readonly #onFree: () => void;
  #held = 0;
  #blocking = 0;
  #drained: PromiseWithResolvers<void> | null = null;

  /** @param onFree called when a release leaves no lease */
  constructor(onFree: () => void) {
    this.#onFree = onFree;
  }

  get held(): number {
    return this.#held;
  }

  /** Whether a current lease is for work that may block the process. */
  get mayBlock(): boolean {
    return this.#blocking > 0;
  }

  hold(mayBlock = false): Lease {
    this.#held++;
    if (mayBlock) this.#blocking++;
    const release = () => {
      if (mayBlock) this.#blocking--;
      if (--this.#held > 0) return;
      this.#drained?.resolve();
      this.#onFree();
    };
    return { signal: this.#ended.signal, release };
  }

  /**
   * Waits until no lease is held, and aborts the leases that are still held after `limitMs`.
   * @returns how many leases were aborted
   */
  async drain(limitMs: number): Promise<number> {
    if (this.#held === 0) return 0;
    this.#drained ??= Promise.withResolvers<void>();
    const { promise, resolve } = this.#drained;
    const timer = setTimeout(resolve, limitMs);
    await promise;
    clearTimeout(timer);
    const ended = this.#held;
    this.#ended.abort(new Error("the app's process was stopped or replaced before this call was done"));
    return ended;
  }
}
