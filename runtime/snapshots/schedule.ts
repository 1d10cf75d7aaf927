// Repeats work at intervals, which may be months.

/** Maximum delay of one timer, in ms. A longer wait takes several. */
const MAX_TIMER_MS = 24 * 3_600_000;

export class Schedule {
  readonly #work: () => Promise<number>;
  #timer: NodeJS.Timeout | null = null;
  #stopped = false;

  /** @param work resolves with the delay in ms until it is due again; must not reject */
  constructor(work: () => Promise<number>) {
    this.#work = work;
  }

  /** Starts the timer. @param delayMs below 0: it is due now */
  start(delayMs: number): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(
      async () => {
        const left = delayMs - MAX_TIMER_MS;
        this.start(left > 0 ? left : await this.#work());
      },
      Math.min(Math.max(delayMs, 0), MAX_TIMER_MS),
    );
  }

  /** Stops the timer. Work in progress goes on. */
  stop(): void {
    this.#stopped = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }
}
