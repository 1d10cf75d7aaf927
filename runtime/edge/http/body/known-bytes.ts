// Recognizes bytes that were parsed before. Comparing them takes a tenth of the time of parsing them.
import { isInReadBuffer } from '../../../sockets/gateway-socket.ts';

export class KnownBytes {
  readonly bytes: Buffer;
  /** The last compared chunk that lies in the shared read buffer; null before the first one. */
  #chunk: Buffer | null = null;
  /** Position of that comparison in `#chunk`. */
  #at = 0;
  /** The slice of `#chunk` that was compared. */
  #there: Buffer | null = null;

  /** Copies the bytes: a slice would keep its whole shared buffer in memory. */
  constructor(bytes: Buffer) {
    this.bytes = Buffer.allocUnsafeSlow(bytes.length);
    this.bytes.set(bytes);
  }

  /** Whether the bytes are at position `at` of a chunk. */
  isAt(chunk: Buffer, at: number): boolean {
    // Chunks of equal length are usually the same `Buffer` object with new content.
    if (chunk === this.#chunk && at === this.#at) return this.#there!.equals(this.bytes);
    const there = chunk.subarray(at, at + this.bytes.length);
    if (isInReadBuffer(chunk)) {
      this.#chunk = chunk;
      this.#at = at;
      this.#there = there;
    }
    return there.equals(this.bytes);
  }
}
