// Knows the bytes of an app's R2 objects in the bucket: counted there from time to time, and followed in between.
import type { ObjectClient } from './object-client.ts';

/** How long a count is used, in ms. */
const FRESH_MS = 10 * 60_000;

export class KeptBytes {
  readonly #client: ObjectClient;
  #counted: Promise<number> | null = null;
  #countedAt = 0;
  /** Added and removed since the count began. */
  #since = 0;

  constructor(client: ObjectClient) {
    this.#client = client;
  }

  /** Notes bytes that were added, or removed. */
  add(bytes: number): void {
    this.#since += bytes;
  }

  /** @throws {R2Error} when the bucket does not answer */
  async bytes(): Promise<number> {
    if (this.#counted === null || performance.now() - this.#countedAt > FRESH_MS) {
      this.#countedAt = performance.now();
      this.#since = 0;
      this.#counted = this.#count();
      this.#counted.catch(() => {
        this.#counted = null;
      });
    }
    return (await this.#counted) + this.#since;
  }

  async #count(): Promise<number> {
    let sum = 0;
    for await (const page of this.#client.pages('')) for (const { bytes } of page) sum += bytes;
    return sum;
  }
}
