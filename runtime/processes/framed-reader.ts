// A stream that is read by lines and by numbers of bytes, no further than it is asked for.

const LINE_END = 10;

export interface FramedReaderOptions {
  /** Longest line, in bytes without its end. */
  lineBytes: number;
  /** Makes the error of a stream of which this is to be said, such as `broke off before its end`. */
  failure: (what: string) => Error;
}

/** One reading at a time: each is to come to its end before the next begins. */
export class FramedReader {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #options: FramedReaderOptions;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>, options: FramedReaderOptions) {
    this.#chunks = stream[Symbol.asyncIterator]();
    this.#options = options;
  }

  /** Whether bytes have been taken from the stream that nobody has read. */
  get hasRest(): boolean {
    return this.#rest.length > 0;
  }

  /** The next line, without its end. @throws {Error} when it is too long, or the stream ends before it does */
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

  /** The next `size` bytes, in pieces as they come. @throws {Error} when the stream ends before that */
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
      // A stream that was destroyed without an error.
      if (error.code === 'ERR_STREAM_PREMATURE_CLOSE') return { done: true, value: undefined } as const;
      throw error;
    });
    if (done) throw this.#options.failure('broke off before its end');
    this.#rest = this.#rest.length === 0 ? value : Buffer.concat([this.#rest, value]);
  }
}
