// Tracks when an app was last used. A request only increments a counter; the time is computed once a second.

/** A process that was started for due work (a cron, alarm or queue batch) ends after this time without requests, in ms. */
const DUE_WORK_QUIET_MS = 5_000;
/** The process stays when work is due within this time, in ms, because a start costs more than some idle seconds. */
const WORTH_WAITING_MS = 30_000;
const MINUTE_MS = 60_000;

export class Activity {
  /** The number of requests forwarded to the app. Callers increment it; a method call for each request would cost more. */
  requests = 0;
  readonly #idleMs: number;
  #seen = 0;
  #quietSince = 0;
  #isForDueWork = false;
  #lastMinute: number | null;

  /**
   * @param idleMs time without requests after which the process ends, in ms; `Infinity` for never
   * @param lastMinute the value of `lastMinute` before the host's start
   */
  constructor(idleMs: number, lastMinute: number | null) {
    this.#idleMs = idleMs;
    this.#lastMinute = lastMinute;
  }

  /** The start of the last minute with a request, in ms since 1970, as of the latest check; null for none. */
  get lastMinute(): number | null {
    return this.#lastMinute;
  }

  /** The process stays for work that is due within this time, in ms: at most the idle time. */
  get worthWaitingMs(): number {
    return Math.min(this.#idleMs, WORTH_WAITING_MS);
  }

  /**
   * Call when a process starts. Until its first request, a process for due work counts as quiet after `DUE_WORK_QUIET_MS`, or
   * after a shorter idle time.
   */
  begin(forDueWork: boolean): void {
    // Requests since the latest check were for the previous process.
    this.#countRequests();
    this.#isForDueWork = forDueWork;
    this.keep();
  }

  /** Marks the app as active now. */
  keep(): void {
    this.#quietSince = performance.now();
  }

  /** Whether the process was started for due work, and no request has come since. */
  get isForDueWork(): boolean {
    return this.#isForDueWork;
  }

  /**
   * Checks for requests since the previous check.
   * @param open the number of open requests and upgraded connections
   * @returns whether the app had no request for long enough, so that its process may end
   */
  isQuiet(open: number): boolean {
    if (this.#countRequests()) {
      this.#isForDueWork = false;
      this.keep();
    } else if (open > 0) {
      this.keep();
    }
    const limitMs = this.#isForDueWork ? Math.min(this.#idleMs, DUE_WORK_QUIET_MS) : this.#idleMs;
    return open === 0 && performance.now() - this.#quietSince >= limitMs;
  }

  /** Whether requests came since the previous call. */
  #countRequests(): boolean {
    if (this.requests === this.#seen) return false;
    this.#seen = this.requests;
    this.#lastMinute = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
    return true;
  }
}
