// Reports that the bucket cannot be used, and that it can be used again.
import type { Alerts } from './alerts.ts';

/** Minimum length of a reported outage, in ms. */
const LONG_MS = 10_000;

export class BucketOutage {
  readonly #alerts: Pick<Alerts, 'reportBucket'>;
  #began: number | null = null;

  constructor(alerts: Pick<Alerts, 'reportBucket'>) {
    this.#alerts = alerts;
  }

  /**
   * Reports an outage of at least `LONG_MS`, and its end. Call it about once a second.
   * @param problem why the bucket cannot be used; null when it can
   * @param now in ms, of a monotonic clock
   */
  look(problem: string | null, now = performance.now()): void {
    if (problem === null) this.#began = null;
    else this.#began ??= now;
    if (this.#began === null || now - this.#began >= LONG_MS) this.#alerts.reportBucket(problem);
  }
}
