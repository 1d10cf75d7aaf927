// Event loop delay of this thread. All requests pass through it, so each waits this long.
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Sampling interval, in ms. Node's figures include it, so it is subtracted from them. */
const RESOLUTION_MS = 20;
const TURN_MS = 60_000;

/** Delays in ms, of the last `over_s` seconds. */
export interface LoopDelays {
  p50_ms: number;
  p99_ms: number;
  max_ms: number;
  over_s: number;
}

interface Measured {
  histogram: ReturnType<typeof monitorEventLoopDelay>;
  since: number;
}

/** Measures the delay until it is stopped. */
export class LoopDelay {
  /** Two histograms, one of which is reset every minute, in turn. So the older one covers the last one to two minutes. */
  #older = begin();
  #younger = begin();
  readonly #turns = setInterval(() => this.#turn(), TURN_MS).unref();

  /** The delays of the last one to two minutes, or since the start if that was later. */
  get recent(): LoopDelays {
    const { histogram, since } = this.#older;
    return {
      p50_ms: delay(histogram.percentile(50)),
      p99_ms: delay(histogram.percentile(99)),
      max_ms: delay(histogram.max),
      over_s: Math.round((performance.now() - since) / 1000),
    };
  }

  stop(): void {
    clearInterval(this.#turns);
    for (const { histogram } of [this.#older, this.#younger]) histogram.disable();
  }

  #turn(): void {
    const { histogram } = this.#older;
    histogram.reset();
    this.#older = this.#younger;
    this.#younger = { histogram, since: performance.now() };
  }
}

function begin(): Measured {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  return { histogram, since: performance.now() };
}

function delay(nanoseconds: number): number {
  return Math.max(0, Math.round((nanoseconds / 1e6 - RESOLUTION_MS) * 100) / 100);
}
