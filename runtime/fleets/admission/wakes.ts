// Wakes a sleeping app: one wake at a time for all waiting requests, with a pause after each failure.

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 60_000;

export class Wakes {
  readonly #ask: () => Promise<void>;
  readonly #onFailure: (error: unknown) => void;
  #pending: PromiseWithResolvers<void> | null = null;
  #failures = 0;
  /** As `performance.now()`, which is monotonic. */
  #retryAt = 0;

  /**
   * @param ask wakes the app; rejects when it does not serve afterwards
   * @param onFailure gets the error of a failed wake
   */
  constructor(ask: () => Promise<void>, onFailure: (error: unknown) => void) {
    this.#ask = ask;
    this.#onFailure = onFailure;
  }

  /** Seconds until a wake may be tried again. */
  get retryAfterS(): number {
    return Math.max(0, (this.#retryAt - performance.now()) / 1000);
  }

  /**
   * Begins a wake, or joins the one under way.
   * @returns a promise that settles with the wake, whether or not it failed; null while no wake may be tried
   */
  join(): Promise<void> | null {
    if (this.#pending !== null) return this.#pending.promise;
    if (this.retryAfterS > 0) return null;
    const pending = Promise.withResolvers<void>();
    this.#pending = pending;
    this.#ask().then(
      () => this.#end(pending),
      (error: unknown) => {
        if (this.#pending === pending) this.#failed(error);
        this.#end(pending);
      },
    );
    return pending.promise;
  }

  /** The app serves: waiting requests continue before the rest of the wake's work is done. */
  arrived(): void {
    this.#failures = 0;
    this.#retryAt = 0;
    if (this.#pending !== null) this.#end(this.#pending);
  }

  #failed(error: unknown): void {
    const delay = Math.min(FIRST_DELAY_MS * 2 ** this.#failures++, LONGEST_DELAY_MS);
    this.#retryAt = performance.now() + delay;
    this.#onFailure(error);
  }

  #end(pending: PromiseWithResolvers<void>): void {
    if (this.#pending === pending) this.#pending = null;
    pending.resolve();
  }
}
