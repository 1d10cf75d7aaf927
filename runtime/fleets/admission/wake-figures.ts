// Wake statistics of all apps. A wake is a start of an app at rest for requests, which wait for it.

/** Number of latest successful wakes that the percentiles cover. */
const REMEMBERED = 1_000;

/** Statistics since the host's start. The percentiles are durations in ms; null before the first successful wake. */
export interface WakeCounts {
  /** Wakes that succeeded. */
  count: number;
  failed: number;
  p50_ms: number | null;
  p99_ms: number | null;
}

export class WakeFigures {
  readonly #last: number[] = [];
  #count = 0;
  #failed = 0;

  /** @param ms duration of the start, in ms; null if it failed */
  add(ms: number | null): void {
    if (ms === null) {
      this.#failed++;
      return;
    }
    this.#last[this.#count % REMEMBERED] = ms;
    this.#count++;
  }

  get counts(): WakeCounts {
    const sorted = this.#last.toSorted((a, b) => a - b);
    const percentile = (share: number) => {
      const value = sorted[Math.ceil(share * sorted.length) - 1];
      return value === undefined ? null : Math.round(value * 10) / 10;
    };
    return { count: this.#count, failed: this.#failed, p50_ms: percentile(0.5), p99_ms: percentile(0.99) };
  }
}
