// Counts the bytes of an app's R2 objects in the bucket from time to time, and follows changes in between.
import type { ObjectClient } from './object-client.ts';

/** Age of a count, in ms, after which `bytes` starts the next one. */
const FRESH_MS = 10 * 60_000;

export class KeptBytes {
  readonly #client: ObjectClient;
  /** The latest count, and the changes since. Null before the first count has ended. */
  #bytes: number | null = null;
  #counting: Promise<void> | null = null;
  #countedAt = 0;
  /** Bytes added, minus those removed, since the latest count began. */
  #since = 0;

  constructor(client: ObjectClient) {
    this.#client = client;
  }

  /** Records bytes that were added; negative for removed ones. */
  add(bytes: number): void {
    this.#since += bytes;
    if (this.#bytes !== null) this.#bytes += bytes;
  }

  /**
   * Returns the bytes of the latest count, plus the changes since. Waits only for the first count.
   * @throws {R2Error} when the bucket does not answer the first count
   */
  async bytes(): Promise<number> {
    if (this.#bytes === null) await this.#count();
    else if (performance.now() - this.#countedAt > FRESH_MS) this.#count().catch(() => {});
    return this.#bytes!;
  }

  #count(): Promise<void> {
    this.#counting ??= this.#countAll().finally(() => {
      this.#counting = null;
    });
    return this.#counting;
  }

  async #countAll(): Promise<void> {
    this.#countedAt = performance.now();
    this.#since = 0;
    let sum = 0;
    for await (const page of this.#client.pages('')) for (const { bytes } of page) sum += bytes;
    this.#bytes = sum + this.#since;
  }
}
