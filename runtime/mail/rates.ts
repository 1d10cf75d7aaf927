// Limits how many e-mails an app may send: each recipient counts as one.
import { dailyExceeded, rateExceeded } from './errors.ts';

export const PER_MINUTE = 120;
export const PER_DAY = 5_000;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

export class Rates {
  readonly #minute = new Window(MINUTE_MS, PER_MINUTE);
  readonly #day = new Window(DAY_MS, PER_DAY);

  /** Counts recipients. @throws {MailError} when they exceed the limit of the day or the minute; then counts none */
  take(recipients: number, now = Date.now()): void {
    if (!this.#day.hasRoom(recipients, now))
      throw dailyExceeded(`An app may send at most ${PER_DAY} e-mails a day; each recipient counts as one.`);
    if (!this.#minute.hasRoom(recipients, now))
      throw rateExceeded(
        `An app may send at most ${PER_MINUTE} e-mails a minute; each recipient counts as one.`,
      );
    this.#day.count += recipients;
    this.#minute.count += recipients;
  }
}

/** Counts recipients in a fixed time window. The first recipient after the end of a window starts the next one. */
class Window {
  readonly #ms: number;
  readonly #most: number;
  #from = Number.NEGATIVE_INFINITY;
  count = 0;

  constructor(ms: number, most: number) {
    this.#ms = ms;
    this.#most = most;
  }

  hasRoom(more: number, now: number): boolean {
    if (now - this.#from >= this.#ms || now < this.#from) {
      this.#from = now;
      this.count = 0;
    }
    return this.count + more <= this.#most;
  }
}
