// A message's body as it arrives.
import { ChunkReader } from './chunks.ts';

/** How a body ends: after so many bytes, with its last chunk, or with the connection. */
export type Framing = number | 'chunked' | 'close';

/** Finds the end of one body among the bytes of its connection. */
export class BodyReader {
  readonly #chunks: ChunkReader | null;
  /** Bytes to come, if it is known. */
  #left: number;

  constructor(framing: Framing) {
    this.#chunks = framing === 'chunked' ? new ChunkReader() : null;
    this.#left = typeof framing === 'number' ? framing : Infinity;
  }

  /** Whether the body has been read whole. One that ends with its connection never is. */
  get done(): boolean {
    return this.#chunks === null ? this.#left === 0 : this.#chunks.done;
  }

  /**
   * Takes the body's bytes from the front of `bytes` and adds what they carry to `pieces`.
   * @returns how many bytes were the body's; -1 when its framing is broken
   */
  read(bytes: Buffer, pieces: Buffer[]): number {
    if (this.#chunks !== null) return this.#chunks.read(bytes, pieces);
    const taken = Math.min(this.#left, bytes.length);
    if (taken > 0) pieces.push(taken === bytes.length ? bytes : bytes.subarray(0, taken));
    this.#left -= taken;
    return taken;
  }
}
