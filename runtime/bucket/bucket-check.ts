// Checks the bucket at the start of Cellar. If the bucket is out of reach, repeats the checks until they pass.
import { setTimeout as sleep } from 'node:timers/promises';
import { log, reason } from '../log.ts';
import { Backoff } from '../processes/backoff.ts';
import type { S3Place } from './place.ts';
import type { UnusableStore } from './probe.ts';

/** Difference between this machine's clock and the bucket's above which Cellar warns, in ms. */
const CLOCK_WARNING_MS = 1_000;
/** Difference above which Cellar reports a problem, in ms: from 2 s on, workerd's cluster ends a process. */
const CLOCK_PROBLEM_MS = 2_000;
/** Pause before a clock that differs is measured again, in ms. */
const CLOCK_EVERY_MS = 30_000;

export class BucketCheck {
  readonly #place: S3Place;
  readonly #claim: () => Promise<void>;
  readonly #onPassed: () => void;
  readonly #clockEveryMs: number;
  readonly #closing = new AbortController();
  /** Why the bucket cannot be used; null without a known problem. */
  #problem: string | null = null;
  #isPassed = false;
  #clockMs: number | null = null;

  /**
   * @param claim claims the bucket for this Cellar
   * @param onPassed called when a bucket that could not be used at the start passes its checks
   * @param clockEveryMs pause before a clock that differs is measured again
   */
  constructor(
    place: S3Place,
    claim: () => Promise<void>,
    onPassed: () => void = () => {},
    clockEveryMs = CLOCK_EVERY_MS,
  ) {
    this.#place = place;
    this.#claim = claim;
    this.#onPassed = onPassed;
    this.#clockEveryMs = clockEveryMs;
  }

  /** Why the bucket cannot be used, or that its clock differs too much; null without a known problem. */
  get problem(): string | null {
    return this.#problem ?? this.#clockProblem;
  }

  /**
   * Whether the bucket has passed its checks since the host's start. Then this Cellar owns it, and conditional writes
   * work as workerd needs.
   */
  get isPassed(): boolean {
    return this.#isPassed;
  }

  /** How far this machine's clock is ahead of the bucket's, in ms; null before the checks have passed. */
  get clockMs(): number | null {
    return this.#clockMs;
  }

  /**
   * Probes the bucket once. If it is out of reach, further probes follow in the background.
   * @throws {UnusableStore} for a store that no further probe would accept
   */
  async start(): Promise<void> {
    await this.#probe().catch((error: Partial<UnusableStore>) => {
      if (!error.isAway) throw error;
      void this.#retry(error);
    });
  }

  close(): void {
    this.#closing.abort();
  }

  /**
   * Probes until the checks pass; before that, the bucket is not used. Retries also after errors that `start` would
   * throw: apps on this disk already run, and the bucket may be repaired.
   */
  async #retry(first: unknown): Promise<void> {
    const { signal } = this.#closing;
    const backoff = new Backoff();
    for (let error = first; error !== null && !signal.aborted; ) {
      this.#problem = reason(error);
      const { delayMs } = backoff.next(0);
      log('error', 'the bucket cannot be used; trying again', { error: this.#problem, retry_ms: delayMs });
      await sleep(delayMs, undefined, { signal }).catch(() => {});
      error = await this.#probe().then(
        () => null,
        (failed: unknown) => failed,
      );
    }
    if (signal.aborted) return;
    log('info', 'the bucket can be used');
    this.#onPassed();
  }

  async #probe(): Promise<void> {
    const { probe } = await import('./probe.ts');
    const { clockMs } = await probe(this.#place);
    await this.#claim();
    this.#isPassed = true;
    this.#problem = null;
    this.#clockMs = clockMs;
    if (this.#clockProblem !== null) log('error', this.#clockProblem);
    else if (this.#clockDiffers)
      log('warn', "synchronise this machine's clock (NTP): it differs from the bucket's by over 1 s", {
        difference_ms: Math.round(clockMs),
      });
    void this.#followClock();
  }

  get #clockDiffers(): boolean {
    return Math.abs(this.#clockMs ?? 0) > CLOCK_WARNING_MS;
  }

  get #clockProblem(): string | null {
    const difference = Math.abs(this.#clockMs ?? 0);
    return difference > CLOCK_PROBLEM_MS
      ? `this machine's clock and the bucket's differ by ${(difference / 1000).toFixed(1)} s, and at most 2 s are allowed: synchronise this machine's clock (NTP)`
      : null;
  }

  /** If the clock differs, measures it until three measurements in a row agree. Never rejects. */
  async #followClock(): Promise<void> {
    if (!this.#clockDiffers) return;
    const { signal } = this.#closing;
    const { measureClock } = await import('./probe.ts');
    // A measurement may be up to half a second too small: a single one proves nothing.
    for (let agreeing = 0; agreeing < 3; ) {
      await sleep(this.#clockEveryMs, undefined, { signal, ref: false }).catch(() => {});
      if (signal.aborted) return;
      const clockMs = await measureClock(this.#place).catch(() => null);
      if (clockMs === null) continue;
      agreeing = Math.abs(clockMs) > CLOCK_WARNING_MS ? 0 : agreeing + 1;
      if (agreeing === 3) this.#clockMs = clockMs;
    }
    log('info', "this machine's clock agrees with the bucket's again");
  }
}
