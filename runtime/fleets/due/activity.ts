// Tracks when an app was last used. A request only increments a counter; the rest is computed once a second.
/** A process that was started for due work (a cron, alarm or queue batch) ends after this quiet time, in ms. */
const DUE_WORK_QUIET_MS = 5_000;
/** The process stays when work is due within this time, in ms: a start costs more than some idle seconds. */
const WORTH_WAITING_MS = 30_000;
const MINUTE_MS = 60_000;

export class Activity {
  /** Requests given to the app's process. A request does nothing else here, for speed. */
  requests = 0;
  readonly #idleMs: number;
  #seen = 0;
  #quietSince = 0;
  #isForDueWork = false;
  #lastMinute: number | null;

  /**
   * @param idleMs quiet time after which the process ends; `Infinity` for never
   * @param lastMinute the value of `lastMinute` when the host last ended
   */
  constructor(idleMs: number, lastMinute: number | null) {
    this.#idleMs = idleMs;
    this.#lastMinute = lastMinute;
  }

  /** The start of the last minute with a request, in ms since 1970, as of the last check. */
  get lastMinute(): number | null {
    return this.#lastMinute;
  }

  /** The process stays for work that is due within this time, in ms. */
  get worthWaitingMs(): number {
    return Math.min(this.#idleMs, WORTH_WAITING_MS);
  }

  /** A process starts. One for due work may end soon, unless a request comes. */
  begin(forDueWork: boolean): void {
    // Requests since the last check were for the previous process.
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
   * Checks for requests since the last check.
   * @param open open requests and upgraded connections
   * @returns whether the app was quiet long enough for its process to end
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

  /** Whether requests came since the last call. */
  #countRequests(): boolean {
    if (this.requests === this.#seen) return false;
    this.#seen = this.requests;
    this.#lastMinute = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
    return true;
  }
}
