// Counts the bytes of an app's R2 objects in the bucket from time to time, and follows changes in between.
import type { ObjectClient } from './object-client.ts';

/** Age of a count, in ms, after which `bytes` starts the next one. */
const FRESH_MS = 10 * 60_000;

export class KeptBytes {
  readonly #client: ObjectClient;
  /** Null before the first count has ended. */
  #bytes: number | null = null;
  #counting: Promise<void> | null = null;
  #countedAt = 0;
  /** Bytes added, minus those removed, since the last count began. */
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
   * Returns the bytes. Waits only while there is no result of a count yet; later calls get the last result.
   * @throws {R2Error} when the bucket does not answer
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
