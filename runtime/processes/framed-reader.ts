// Reads a stream by lines or by byte counts, only as far as requested.

const LINE_END = 10;

export interface FramedReaderOptions {
  /** Longest line, in bytes without its newline. */
  lineBytes: number;
  /** Makes the stream's error from a phrase such as `broke off before its end`. */
  failure: (what: string) => Error;
}

/** One read at a time: each must finish before the next begins. */
export class FramedReader {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #options: FramedReaderOptions;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>, options: FramedReaderOptions) {
    this.#chunks = stream[Symbol.asyncIterator]();
    this.#options = options;
  }

  /** Whether the buffer holds unread bytes. */
  get hasRest(): boolean {
    return this.#rest.length > 0;
  }

  /** Returns the next line, without its newline. @throws {Error} when it is too long, or the stream ends first */
  async line(): Promise<string> {
    const { lineBytes, failure } = this.#options;
    for (;;) {
      const end = this.#rest.indexOf(LINE_END);
      if ((end === -1 ? this.#rest.length : end) > lineBytes)
        throw failure(`has a line of more than ${lineBytes} bytes`);
      if (end === -1) await this.#more();
      else return this.#take(end + 1).toString('utf8', 0, end);
    }
  }

  /** Yields the next `size` bytes in chunks. @throws {Error} when the stream ends first */
  async *bytes(size: number): AsyncGenerator<Buffer> {
    for (let left = size; left > 0; ) {
      if (this.#rest.length === 0) await this.#more();
      const piece = this.#take(left);
      left -= piece.length;
      yield piece;
    }
  }

  #take(most: number): Buffer {
    const taken = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(taken.length);
    return taken;
  }

  async #more(): Promise<void> {
    const { done, value } = await this.#chunks.next().catch((error: NodeJS.ErrnoException) => {
      // The stream was destroyed without an error.
      if (error.code === 'ERR_STREAM_PREMATURE_CLOSE') return { done: true, value: undefined } as const;
      throw error;
    });
    if (done) throw this.#options.failure('broke off before its end');
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
  }
}
