// The first bytes of one buffer, over and over: what is read into it, or put together in it.

/** Prefixes of at most so many bytes are kept once they were made: a buffer has as many of them at most. */
const KEPT_BYTES = 2_048;

/** A buffer, and its prefixes. To make one each time costs more than to fill it. */
export class Prefixes {
  readonly buffer: Buffer;
  /** By their length, once one was asked for. An array that grew as needed would be a table to V8, in which it looks each up. */
  #kept: (Buffer | null)[] | null = null;

  /** @param bytes its size */
  constructor(bytes: number) {
    this.buffer = Buffer.allocUnsafeSlow(bytes);
  }

  /** The first `length` bytes. Whoever asks for as many gets the same object, and has in it whatever was put there last. */
  of(length: number): Buffer {
    if (length > KEPT_BYTES) return this.buffer.subarray(0, length);
    this.#kept ??= new Array<Buffer | null>(KEPT_BYTES + 1).fill(null);
    const known = this.#kept[length];
    if (known) return known;
    const made = this.buffer.subarray(0, length);
    this.#kept[length] = made;
    return made;
  }
}
