// Cached prefixes of one buffer that is reused for reads or for assembling output.

/** Longest cached prefix, in bytes. A buffer caches at most one prefix of each length. */
const KEPT_BYTES = 2_048;

/** A buffer and its prefixes. Creating a prefix costs more than filling it. */
export class Prefixes {
  readonly buffer: Buffer;
  /** Requested prefixes, by length. Allocated in full: V8 would turn an array that grows sparsely into a slow hash table. */
  #kept: (Buffer | null)[] | null = null;

  /** @param bytes size of the buffer */
  constructor(bytes: number) {
    this.buffer = Buffer.allocUnsafeSlow(bytes);
  }

  /** Returns the first `length` bytes. Callers with the same length share one object, with its latest content. */
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
