// When an app was last used: a request only raises a counter, and all else is worked out once a second.
import type { Upstream } from '../../edge/upstream/upstream.ts';

/** A process that was started for due work ends this long after that work, in ms. */
const DUE_WORK_QUIET_MS = 5_000;
/** Work that is due within this time, in ms, is waited for: a start costs more than a few idle seconds. */
const WORTH_WAITING_MS = 30_000;
const MINUTE_MS = 60_000;

export class Activity {
  /** Requests given to the app's process so far. Counting is all that a request does here. */
  requests = 0;
  readonly #idleMs: number;
  #seen = 0;
  #quietSince = 0;
  #limitMs: number;
  #lastMinute: number | null;

  /**
   * @param idleMs quiet time after which a process goes; `Infinity` for never
   * @param lastMinute as `lastMinute` was when the host ended
   */
  constructor(idleMs: number, lastMinute: number | null) {
    this.#idleMs = idleMs;
    this.#limitMs = idleMs;
    this.#lastMinute = lastMinute;
  }

  /** The start of the last minute with a request, in ms since 1970, as of the last look. */
  get lastMinute(): number | null {
    return this.#lastMinute;
  }

  /** How far ahead due work keeps a process, in ms. */
  get worthWaitingMs(): number {
    return Math.min(this.#idleMs, WORTH_WAITING_MS);
  }

  /** A process runs from now on. One started for due work may go soon, unless a request comes. */
  begin(forDueWork: boolean): void {
    // Requests that came since the last look were for the process before.
    this.#countRequests();
    this.#limitMs = forDueWork ? Math.min(this.#idleMs, DUE_WORK_QUIET_MS) : this.#idleMs;
    this.keep();
  }

  /** Counts as activity just now. */
  keep(): void {
    this.#quietSince = performance.now();
  }

  /** Looks at the requests since the last look. @returns whether it has been quiet for so long that the process may end */
  isQuiet({ active, tunnels }: Upstream): boolean {
    if (this.#countRequests()) {
      this.#limitMs = this.#idleMs;
      this.keep();
    } else if (active + tunnels > 0) {
      this.keep();
    }
    return active + tunnels === 0 && performance.now() - this.#quietSince >= this.#limitMs;
  }

  /** Whether requests came since it was called last. */
  #countRequests(): boolean {
    if (this.requests === this.#seen) return false;
    this.#seen = this.requests;
    this.#lastMinute = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
    return true;
  }
}
