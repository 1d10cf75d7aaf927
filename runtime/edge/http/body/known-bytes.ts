// Bytes that were seen before and are looked for again. To compare them takes a tenth of the time that it takes to read them.
import { isLent } from '../../../sockets/bare-socket.ts';

export class KnownBytes {
  readonly bytes: Buffer;
  /** Where they were looked for last. */
  #chunk: Buffer | null = null;
  #at = 0;
  #there: Buffer | null = null;

  /** Keeps a copy, in memory of its own: a part of a shared piece would keep all of that. */
  constructor(bytes: Buffer) {
    this.bytes = Buffer.allocUnsafeSlow(bytes.length);
    this.bytes.set(bytes);
  }

  /** Whether they stand at that place of a chunk. */
  isAt(chunk: Buffer, at: number): boolean {
    // Chunks of one length are mostly one object, which is read into anew.
    if (chunk === this.#chunk && at === this.#at) return this.#there!.equals(this.bytes);
    const there = chunk.subarray(at, at + this.bytes.length);
    if (isLent(chunk)) {
      this.#chunk = chunk;
      this.#at = at;
      this.#there = there;
    }
    return there.equals(this.bytes);
  }
}
