// Reports that the bucket cannot be used, and that it can be used again.
import type { Alerts } from './alerts.ts';

/** Minimum length of a reported outage, in ms. */
const LONG_MS = 10_000;
/** Minimum time between two reported outages, in ms. */
const AGAIN_MS = 3_600_000;

export class BucketOutage {
  readonly #alerts: Pick<Alerts, 'reportBucket'>;
  #began: number | null = null;
  #reported: number | null = null;
  #isReported = false;

  constructor(alerts: Pick<Alerts, 'reportBucket'>) {
    this.#alerts = alerts;
  }

  /**
   * Reports when an outage has become long enough, and when it has ended. Call it about once a second.
   * @param problem why the bucket cannot be used; null when it can
   * @param now in ms, of a monotonic clock
   */
  look(problem: string | null, now = performance.now()): void {
    if (problem === null) {
      if (this.#isReported) this.#alerts.reportBucket(null);
      this.#isReported = false;
      this.#began = null;
      return;
    }
    this.#began ??= now;
    const isRecent = this.#reported !== null && now - this.#reported < AGAIN_MS;
    if (this.#isReported || isRecent || now - this.#began < LONG_MS) return;
    this.#isReported = true;
    this.#reported = now;
    this.#alerts.reportBucket(problem);
  }
}
