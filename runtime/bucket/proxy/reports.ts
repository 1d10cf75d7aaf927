// Collects what the host is told, and tells it at most once a second.
import type { Counts, Report } from './messages.ts';

const INTERVAL_MS = 1_000;

export function noCounts(): Counts {
  return { writes: 0, reads: 0, deletes: 0, bytesIn: 0, bytesOut: 0 };
}

export class Reports {
  readonly #send: (report: Report) => void;
  #apps = new Map<string, Counts>();
  #away: string | null = null;
  /** Null until the host has been told: it knows only what an earlier process has said. */
  #isReportedAway: boolean | null = null;
  #timer: NodeJS.Timeout | null = null;

  constructor(send: (report: Report) => void) {
    this.#send = send;
  }

  count(appId: string, field: keyof Counts, by = 1): void {
    const counts = this.#apps.get(appId) ?? noCounts();
    counts[field] += by;
    this.#apps.set(appId, counts);
    this.#plan();
  }

  /** @param reason why the store does not answer; null: it does */
  storeIsAway(reason: string | null): void {
    this.#away = reason;
    // Only a change is told: each failure of a store that is away may have other words.
    if (this.#isAway !== this.#isReportedAway) this.#plan();
  }

  get #isAway(): boolean {
    return this.#away !== null;
  }

  #plan(): void {
    this.#timer ??= setTimeout(() => this.#report(), INTERVAL_MS);
  }

  #report(): void {
    this.#timer = null;
    if (this.#isAway !== this.#isReportedAway) {
      this.#isReportedAway = this.#isAway;
      this.#send({ type: 'away', reason: this.#away });
    }
    if (this.#apps.size === 0) return;
    this.#send({ type: 'counts', apps: [...this.#apps] });
    this.#apps = new Map();
  }
}
