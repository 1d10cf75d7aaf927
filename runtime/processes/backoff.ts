// Restart delays of a process that keeps ending.
import { setTimeout as sleep } from 'node:timers/promises';
import { log } from '../log.ts';

/** Lifetime in ms after which a process counts as healthy: the count of ends in a row then begins again. */
const STEADY_MS = 60_000;
/** This many ends in a row are a crash loop. */
const LOOP_EXITS = 5;
const FIRST_DELAY_MS = 100;
const FIRST_LOOP_DELAY_MS = 5_000;
const LONGEST_DELAY_MS = 60_000;
/** Longest restart delay of Cellar's own processes, in ms. It is short because all apps wait for these processes. */
const LONGEST_OWN_DELAY_MS = 5_000;

/** When to start a process again. Requests wait for the restart, but are refused in a crash loop (`loop`). */
export interface Restart {
  delayMs: number;
  loop: boolean;
}

export class Backoff {
  #exits = 0;

  /**
   * Returns when to restart a process that lived `livedMs`; 0: it did not start. Delays double from 100 ms. In a crash loop
   * they double from 5 s to at most 60 s.
   */
  next(livedMs: number): Restart {
    this.#exits = livedMs >= STEADY_MS ? 1 : this.#exits + 1;
    const loop = this.#exits >= LOOP_EXITS;
    const delayMs = loop
      ? FIRST_LOOP_DELAY_MS * 2 ** (this.#exits - LOOP_EXITS)
      : FIRST_DELAY_MS * 2 ** (this.#exits - 1);
    return { delayMs: Math.min(delayMs, LONGEST_DELAY_MS), loop };
  }

  /** Like `next`, for a failed start. Counts as a crash loop at once, because an immediate retry would only fail again. */
  failed(): Restart {
    this.#exits = Math.max(this.#exits, LOOP_EXITS - 1);
    return this.next(0);
  }

  /** Resets the count, after a new release or a requested start. */
  reset(): void {
    this.#exits = 0;
  }
}

/** The waits between the end of one of Cellar's own processes and its next start. */
export class Restarts {
  /** Aborted by `close`. */
  readonly closed: AbortSignal;
  readonly #closing = new AbortController();
  readonly #backoff = new Backoff();
  readonly #name: string;

  /** @param name of the process in the log, such as `bucket service` */
  constructor(name: string) {
    this.#name = name;
    this.closed = this.#closing.signal;
  }

  /**
   * Logs the end of the process, and resolves when it should start again.
   * @param how it ended, for the log
   * @param livedMs how long it lived; 0: it did not start
   * @returns whether to start it; false after `close`
   */
  async next(how: string, livedMs: number): Promise<boolean> {
    if (this.closed.aborted) return false;
    const delayMs = Math.min(this.#backoff.next(livedMs).delayMs, LONGEST_OWN_DELAY_MS);
    log('error', `the ${this.#name} ended and is started again`, { how, delay_ms: delayMs });
    await sleep(delayMs, undefined, { signal: this.closed }).catch(() => {});
    return !this.closed.aborted;
  }

  /** Ends the waits, and prevents further restarts. */
  close(): void {
    this.#closing.abort();
  }
}
