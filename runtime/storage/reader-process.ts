// Runs a reader: a process of the app's Unix user that answers queries about the app's storage one by one. An attacker
// may control its output. So the output's size is limited, and only clients who may see the storage get it.
import { abandon, type Job, startJob } from '../processes/child.ts';
import { FramedReader } from '../processes/framed-reader.ts';

/** Maximum bytes of an answer's head line. */
const HEAD_BYTES = 100;

/** The reader ended before it had answered. */
export class ReaderEnded extends Error {
  /** The signal that ended the reader; null without one. */
  readonly killedBy: NodeJS.Signals | null;
  constructor(killedBy: NodeJS.Signals | null) {
    super('the reader ended before it had answered');
    this.killedBy = killedBy;
  }
}

/** An answer as unparsed JSON. */
export interface Answer {
  bytes: Buffer;
  /** Whether the answer is a refusal. */
  refused: boolean;
}

export class ReaderProcess {
  readonly #job: Job;
  readonly #output: FramedReader;
  #hasExited = false;

  private constructor(job: Job) {
    this.#job = job;
    this.#output = new FramedReader(job.stdout, {
      lineBytes: HEAD_BYTES,
      failure: (what) => new Error(`the reader's output ${what}`),
    });
    job.stderr.resume();
    // The end of the output does not show the exit: nobody reads the output between queries. Another process may also
    // hold it open.
    void job.exited.then(() => {
      this.#hasExited = true;
      this.end();
    });
  }

  /** @param words the command that starts `reader/main.js` @throws {ChildError} when it cannot start */
  static async start(words: string[]): Promise<ReaderProcess> {
    return new ReaderProcess(await startJob(words, { title: 'reading the storage' }));
  }

  /** Whether the reader accepts a query: it runs, and has printed nothing since its previous answer. */
  get isReady(): boolean {
    return !this.#hasExited && !this.#hasMore;
  }

  /**
   * Sends a query, and returns the answer. Call it only after the previous answer.
   * @param limitBytes maximum bytes of the answer. A reader that prints more is ended
   * @throws {ReaderEnded} when the reader ends, is ended by `end`, or prints an invalid answer
   */
  async ask(question: object, limitBytes: number): Promise<Answer> {
    this.#job.stdin.write(`${JSON.stringify(question)}\n`);
    try {
      return await this.#answer(limitBytes);
    } catch {
      this.end();
      const { killedBy } = await this.#job.exited;
      throw new ReaderEnded(killedBy);
    }
  }

  /** Ends the reader's whole process group. */
  end(): void {
    abandon(this.#job);
  }

  get #hasMore(): boolean {
    return this.#output.hasRest || this.#job.stdout.readableLength > 0;
  }

  /** @throws {Error} when the reader ends, or prints an invalid answer */
  async #answer(limitBytes: number): Promise<Answer> {
    const { bytes: size, refused } = JSON.parse(await this.#output.line());
    if (!Number.isSafeInteger(size) || size < 0 || size > limitBytes)
      throw new Error('the answer has no valid size');
    const pieces: Buffer[] = [];
    for await (const piece of this.#output.bytes(size)) pieces.push(piece);
    if (this.#hasMore) throw new Error('the answer is longer than announced');
    return { bytes: Buffer.concat(pieces), refused: refused === true };
  }
}
