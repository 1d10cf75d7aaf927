// Notices when the bucket does not answer the proxy, and when it does again.
import { setTimeout as sleep } from 'node:timers/promises';
import { log, logRarely } from '../log.ts';
import { bucketUrl, s3Client } from './client.ts';
import type { S3Place } from './place.ts';

/** A shorter silence is nothing: processes repeat what failed. In ms. */
const GRACE_MS = 3_000;
/** How often the bucket is asked whether it is back, and how long an answer may take, in ms. */
const ASK_EVERY_MS = 500;
const ANSWER_MS = 2_000;

export class Away {
  readonly #place: S3Place;
  readonly #onBack: () => void;
  readonly #closing = new AbortController();
  #reason: string | null = null;
  /** As `performance.now()`. */
  #since = 0;

  /** @param onBack called when a bucket that was away answers again */
  constructor(place: S3Place, onBack: () => void) {
    this.#place = place;
    this.#onBack = onBack;
  }

  /** Why the bucket does not answer; null while it does. */
  get reason(): string | null {
    return this.#reason;
  }

  /** Whether it has not answered for so long that processes end. */
  get isAway(): boolean {
    return this.#reason !== null && performance.now() - this.#since > GRACE_MS;
  }

  /** The bucket has not answered. */
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
    while (!signal.aborted && !(await this.#answers()))
      await sleep(ASK_EVERY_MS, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    const seconds = ((performance.now() - this.#since) / 1000).toFixed(1);
    log('info', 'the bucket answers again', { away_s: seconds });
    this.#reason = null;
    this.#onBack();
  }

  async #answers(): Promise<boolean> {
    const query = new URLSearchParams({ 'list-type': '2', 'max-keys': '1', prefix: this.#place.prefix });
    const signal = AbortSignal.any([this.#closing.signal, AbortSignal.timeout(ANSWER_MS)]);
    try {
      const client = s3Client(this.#place, { retries: 0 });
      const answer = await client.fetch(`${bucketUrl(this.#place)}?${query}`, { signal, redirect: 'error' });
      await answer.body?.cancel();
      return answer.ok;
    } catch {
      return false;
    }
  }
}
