// A child process that reads the files of one directory, as the user who owns them.

import type { User } from '../../isolation/users.ts';
import { abandon, type Child, startChild } from '../../processes/child.ts';
import { FramedReader } from '../../processes/framed-reader.ts';
import { readerProgram, readerWords } from '../../processes/reader.ts';
import type { Listed } from './listing.ts';

const PROGRAM = readerProgram(new URL('./reader-process.js', import.meta.url));
/** Memory limit, in bytes: a database of up to 32 MiB is copied in memory. */
const MEMORY_BYTES = 1024 * 1024 * 1024;
/** Longest line of its output, in bytes. */
const LINE_BYTES = 8 * 1024;
/** Timeout without output, in ms, to which `TIMEOUT_PER_BYTE_MS` is added for each byte of the file. */
const TIMEOUT_MS = 20_000;
/** Additional timeout for each byte of a file, in ms, because a large database is copied before there is output. */
const TIMEOUT_PER_BYTE_MS = 1 / 10_000;
/** Maximum timeout without output, in ms. */
const MAX_TIMEOUT_MS = 10 * 60_000;

/** Where to read, and as which user. */
export interface ReaderPlace {
  root: string;
  /** `null`: this process's own user. */
  user: User | null;
  /** Path for copies of large databases, which the user can write. */
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
   * Reads a file, or a consistent copy of a database.
   * @returns its size and content, which must be read to the end; null when it no longer exists
   * @throws {Error} when it cannot be read
   */
  async read({
    path,
    kind,
    size: listed,
  }: Listed): Promise<{ size: number; content: AsyncIterable<Buffer> } | null> {
    const timeoutMs = Math.min(TIMEOUT_MS + listed * TIMEOUT_PER_BYTE_MS, MAX_TIMEOUT_MS);
    this.#child.stdin.write(`${JSON.stringify({ path, kind })}\n`);
    const line = await this.#within(timeoutMs, this.#output.line());
    const said = JSON.parse(line) as { size?: unknown; gone?: true; error?: string };
    if (said.gone) return null;
    if (!Number.isSafeInteger(said.size)) throw new Error(`${path}: ${said.error}`);
    const size = said.size as number;
    return { size, content: this.#content(size, timeoutMs) };
  }

  /** Ends the process; pending reads then fail. */
  end(): void {
    abandon(this.#child);
  }

  async *#content(size: number, timeoutMs: number): AsyncGenerator<Buffer> {
    const pieces = this.#output.bytes(size);
    for (;;) {
      const { done, value } = await this.#within(timeoutMs, pieces.next());
      if (done) return;
      yield value;
    }
  }

  /** Waits for output, and ends the process after `timeoutMs`. The time to store the output does not count. */
  async #within<Said>(timeoutMs: number, said: Promise<Said>): Promise<Said> {
    const timer = setTimeout(() => {
      this.#errors = `nothing came for ${timeoutMs / 1000} s`;
      this.end();
    }, timeoutMs);
    try {
      return await said;
    } finally {
      clearTimeout(timer);
    }
  }
}
