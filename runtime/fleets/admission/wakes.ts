// Wakes of a sleeping app: one at a time for all requests that wait, and a pause after each that failed.

const FIRST_DELAY_MS = 1_000;
const LONGEST_DELAY_MS = 60_000;

export class Wakes {
  readonly #ask: () => Promise<void>;
  readonly #onFailure: (error: unknown) => void;
  #pending: PromiseWithResolvers<void> | null = null;
  #failures = 0;
  /** As `performance.now()`, which no setting of the clock moves. */
  #retryAt = 0;

  /**
   * @param ask has the app woken; rejects when it does not serve then
   * @param onFailure gets the error of a wake that failed
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
   * @returns a promise that settles when the wake has ended, also a failed one; null while no wake may be tried
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

  /** The app serves: requests that wait may go on, before all of the wake's work is done. */
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
