// A child that reads the files of one directory, as the user whose they are.
import { type Child, startChild } from '../machine/child.ts';
import { readerProgram, readerWords } from '../machine/reader.ts';
import type { User } from '../machine/users.ts';
import type { Listed } from './listing.ts';

const PROGRAM = readerProgram(new URL('./reader-process.js', import.meta.url));
/** A database of 32 MiB is copied in it. */
const MEMORY_BYTES = 1024 * 1024 * 1024;
/** Longest line that it says, in bytes. */
const LINE_BYTES = 8 * 1024;
/** Longest time without a word of it, in ms: at first, for each byte of a file, of which it may make a copy, and at most. */
const SILENCE_MS = 20_000;
const SILENCE_PER_BYTE_MS = 1 / 10_000;
const LONGEST_SILENCE_MS = 10 * 60_000;

/** Where to read, and as whom. */
export interface ReaderPlace {
  root: string;
  /** `null`: this process's own user. */
  user: User | null;
  /** Path of a file that the user may write, for copies of large databases. */
  copy: string;
}

/** Reads one file after another. */
export class Reader {
  readonly #child: Child;
  readonly #chunks: AsyncIterator<Buffer>;
  #buffered: Buffer = Buffer.alloc(0);
  #silence: NodeJS.Timeout;
  #errors = '';

  static async start({ root, user, copy }: ReaderPlace): Promise<Reader> {
    const argument = JSON.stringify({ root, copy });
    const words = readerWords(PROGRAM, { user, memoryBytes: MEMORY_BYTES, argument });
    return new Reader(await startChild(words, { title: 'the reader of a snapshot' }));
  }

  private constructor(child: Child) {
    this.#child = child;
    this.#chunks = child.stdout[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
    this.#silence = setTimeout(() => child.end(), SILENCE_MS);
    child.stderr.on('data', (chunk: Buffer) => {
      this.#errors = (this.#errors + chunk.toString('utf8')).slice(0, 500);
    });
  }

  /**
   * Reads a file; of a database, a copy as of one moment.
   * @returns its size and pieces of its content, to be read to the end; null when it is not there any more
   * @throws {Error} when it cannot be read
   */
  async read({
    path,
    kind,
    size: listed,
  }: Listed): Promise<{ size: number; content: AsyncIterable<Buffer> } | null> {
    clearTimeout(this.#silence);
    const silenceMs = Math.min(SILENCE_MS + listed * SILENCE_PER_BYTE_MS, LONGEST_SILENCE_MS);
    this.#silence = setTimeout(() => this.#child.end(), silenceMs);
    this.#child.stdin.write(`${JSON.stringify({ path, kind })}\n`);
    const said = JSON.parse(await this.#line()) as { size?: unknown; gone?: true; error?: string };
    if (said.gone) return null;
    if (!Number.isSafeInteger(said.size)) throw new Error(`${path}: ${said.error}`);
    const size = said.size as number;
    return { size, content: this.#bytes(size) };
  }

  end(): void {
    clearTimeout(this.#silence);
    this.#child.end();
  }

  async *#bytes(size: number): AsyncIterable<Buffer> {
    for (let left = size; left > 0; ) {
      if (this.#buffered.length === 0) await this.#more();
      const piece = this.#buffered.subarray(0, left);
      this.#buffered = this.#buffered.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
  }

  async #line(): Promise<string> {
    for (;;) {
      const end = this.#buffered.indexOf('\n');
      if (end !== -1) {
        const line = this.#buffered.toString('utf8', 0, end);
        this.#buffered = this.#buffered.subarray(end + 1);
        return line;
      }
      if (this.#buffered.length > LINE_BYTES) throw new Error('the reader says what cannot be understood');
      await this.#more();
    }
  }

  async #more(): Promise<void> {
    this.#silence.refresh();
    const { done, value } = await this.#chunks.next();
    if (done) throw new Error(`the reader ended${this.#errors === '' ? '' : `: ${this.#errors.trim()}`}`);
    this.#buffered = this.#buffered.length === 0 ? value : Buffer.concat([this.#buffered, value]);
  }
}
