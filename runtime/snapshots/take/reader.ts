// A child that reads the files of one directory, as the user whose they are.

import type { User } from '../../isolation/users.ts';
import { abandon, type Child, startChild } from '../../processes/child.ts';
import { FramedReader } from '../../processes/framed-reader.ts';
import { readerProgram, readerWords } from '../../processes/reader.ts';
import type { Listed } from './listing.ts';

const PROGRAM = readerProgram(new URL('./reader-process.js', import.meta.url));
/** A database of 32 MiB is copied in it. */
const MEMORY_BYTES = 1024 * 1024 * 1024;
/** Longest line that it says, in bytes. */
const LINE_BYTES = 8 * 1024;
/** Longest time that it is waited for without a word of it, in ms: at first, for each byte of a file, of which it may make a copy, and at most. */
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
  readonly #output: FramedReader;
  #errors = '';

  static async start({ root, user, copy }: ReaderPlace): Promise<Reader> {
    const argument = JSON.stringify({ root, copy });
    const words = readerWords(PROGRAM, { user, memoryBytes: MEMORY_BYTES, argument });
    return new Reader(await startChild(words, { title: 'the reader of a snapshot' }));
  }

  private constructor(child: Child) {
    this.#child = child;
    this.#output = new FramedReader(child.stdout, {
      lineBytes: LINE_BYTES,
      failure: (what) =>
        new Error([`the reader's output ${what}`, this.#errors.trim()].filter(Boolean).join(': ')),
    });
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
    const silenceMs = Math.min(SILENCE_MS + listed * SILENCE_PER_BYTE_MS, LONGEST_SILENCE_MS);
    this.#child.stdin.write(`${JSON.stringify({ path, kind })}\n`);
    const line = await this.#within(silenceMs, this.#output.line());
    const said = JSON.parse(line) as { size?: unknown; gone?: true; error?: string };
    if (said.gone) return null;
    if (!Number.isSafeInteger(said.size)) throw new Error(`${path}: ${said.error}`);
    const size = said.size as number;
    return { size, content: this.#content(size, silenceMs) };
  }

  /** Ends it, and whatever waits for a word of it. */
  end(): void {
    abandon(this.#child);
  }

  async *#content(size: number, silenceMs: number): AsyncGenerator<Buffer> {
    const pieces = this.#output.bytes(size);
    for (;;) {
      const { done, value } = await this.#within(silenceMs, pieces.next());
      if (done) return;
      yield value;
    }
  }

  /** What it says next. It is ended after `silenceMs`, in which the time does not count that is taken to keep what it said. */
  async #within<Said>(silenceMs: number, said: Promise<Said>): Promise<Said> {
    const silence = setTimeout(() => this.end(), silenceMs);
    try {
      return await said;
    } finally {
      clearTimeout(silence);
    }
  }
}
