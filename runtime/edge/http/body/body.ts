// Parses the body of a message while it arrives.
import { ChunkReader } from './chunks.ts';

/** How a body ends: after a number of bytes, with its last chunk, or with the connection. */
export type Framing = number | 'chunked' | 'close';

/** Finds the end of one body among the bytes of its connection. */
export class BodyReader {
  readonly #chunks: ChunkReader | null;
  /** Remaining bytes; infinite if unknown. */
  #left: number;

  constructor(framing: Framing) {
    this.#chunks = framing === 'chunked' ? new ChunkReader() : null;
    this.#left = typeof framing === 'number' ? framing : Infinity;
  }

  /** Whether the whole body has been read. Always false for one that ends with its connection. */
  get done(): boolean {
    return this.#chunks === null ? this.#left === 0 : this.#chunks.done;
  }

  /**
   * Reads the body's bytes from the front of `bytes` and appends their payload to `pieces`.
   * @returns the number of bytes read; -1 when the framing is invalid
   */
  read(bytes: Buffer, pieces: Buffer[]): number {
    if (this.#chunks !== null) return this.#chunks.read(bytes, pieces);
    const taken = Math.min(this.#left, bytes.length);
    if (taken > 0) pieces.push(taken === bytes.length ? bytes : bytes.subarray(0, taken));
    this.#left -= taken;
    return taken;
  }
}
