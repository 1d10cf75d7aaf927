// Notices when the bucket does not answer the proxy, and when it answers again.
import { setTimeout as sleep } from 'node:timers/promises';
import { log, logRarely } from '../log.ts';
import { bucketFetch } from './client.ts';
import type { S3Place } from './place.ts';

/** An outage shorter than this, in ms, does not abort `lost`, because workerd repeats failed requests. */
const GRACE_MS = 3_000;
/** Pause between two tests whether the bucket answers again, in ms. */
const ASK_EVERY_MS = 500;
/** Timeout of one such test, in ms. */
const ANSWER_MS = 2_000;
/** R2's status for a second write of the same name within a second. */
const TOO_OFTEN = 429;

export class Away {
  readonly #place: S3Place;
  readonly #onBack: (wasLong: boolean) => void;
  readonly #closing = new AbortController();
  #reason: string | null = null;
  #lost = new AbortController();
  /** Start of the outage, as `performance.now()`. */
  #since = 0;

  /** @param onBack called when the bucket answers again. `wasLong`: whether the outage was long enough to abort `lost` */
  constructor(place: S3Place, onBack: (wasLong: boolean) => void) {
    this.#place = place;
    this.#onBack = onBack;
  }

  /** Why the bucket does not answer; null while it does. */
  get reason(): string | null {
    return this.#reason;
  }

  /** Whether the bucket has not answered for `GRACE_MS`. Processes of apps then end. */
  get isAway(): boolean {
    return this.lost.aborted;
  }

  /** A signal that aborts once `isAway` becomes true. When the bucket answers again, a new signal replaces it. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /** Records that the bucket has not answered, and tests it until it answers. */
  failed(reason: string): void {
    if (this.#reason !== null || this.#closing.signal.aborted) return;
    this.#reason = reason;
    this.#since = performance.now();
    logRarely('error', 'the bucket does not answer', { error: reason });
    void this.#awaitAnswer();
  }

  close(): void {
    this.#closing.abort();
  }

  async #awaitAnswer(): Promise<void> {
    const { signal } = this.#closing;
    const lost = this.#lost;
    const grace = setTimeout(() => lost.abort(new Error(`it does not answer: ${this.#reason}`)), GRACE_MS);
    while (!signal.aborted && !(await this.#answers()))
      await sleep(ASK_EVERY_MS, undefined, { signal }).catch(() => {});
    clearTimeout(grace);
    if (signal.aborted) return;
    const wasLong = this.isAway;
    const seconds = ((performance.now() - this.#since) / 1000).toFixed(1);
    if (wasLong) log('info', 'the bucket answers again', { away_s: seconds });
    this.#reason = null;
    if (wasLong) this.#lost = new AbortController();
    this.#onBack(wasLong);
  }

  /** Tests with a write, because a store may serve reads and yet refuse writes. */
  async #answers(): Promise<boolean> {
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(ANSWER_MS)]);
    try {
      const path = `/${this.#place.prefix}probe/away`;
      const answer = await bucketFetch(this.#place)(path, { method: 'PUT', body: 'away' }, signal);
      await answer.body?.cancel();
      return answer.ok || answer.status === TOO_OFTEN;
    } catch {
      return false;
    }
  }
}
