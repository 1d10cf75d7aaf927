// Batches reports to the host: sends them at most once a second.
import type { Counts, Report } from './messages.ts';

const INTERVAL_MS = 1_000;

export function noCounts(): Counts {
  return { writes: 0, reads: 0, deletes: 0, bytesIn: 0, bytesOut: 0 };
}

export class Reports {
  readonly #send: (report: Report) => void;
  #apps = new Map<string, Counts>();
  #away: string | null = null;
  /** The state in the latest report. Null before the first one: the host may have the state of an earlier process. */
  #isReportedAway: boolean | null = null;
  /** Whether a request has failed since the latest report. */
  #hasFailed = false;
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
    this.#hasFailed ||= this.#isAway;
    if (this.#hasFailed || this.#isAway !== this.#isReportedAway) this.#plan();
  }

  get #isAway(): boolean {
    return this.#away !== null;
  }

  #plan(): void {
    this.#timer ??= setTimeout(() => this.#report(), INTERVAL_MS);
  }

  #report(): void {
    this.#timer = null;
    // Sends `away` again while requests fail: the host forgets it when its own test of the store succeeds.
    if ((this.#isAway && this.#hasFailed) || this.#isAway !== this.#isReportedAway) {
      this.#isReportedAway = this.#isAway;
      this.#hasFailed = false;
      this.#send({ type: 'away', reason: this.#away });
    }
    if (this.#apps.size === 0) return;
    this.#send({ type: 'counts', apps: [...this.#apps] });
    this.#apps = new Map();
  }
}
