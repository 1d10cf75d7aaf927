// A process of an app's user that answers questions about what the app keeps, one after another. What it says may be the work
// of an attacker: it is bounded, and goes to those alone who may see what the app keeps.
import { abandon, type Job, startJob } from '../processes/child.ts';
import { FramedReader } from '../processes/framed-reader.ts';

/** Longest line that an answer begins with. */
const HEAD_BYTES = 100;

/** A reader that ended, or was ended, before it had answered. */
export class ReaderEnded extends Error {
  /** The signal that ended it, if one did. */
  readonly killedBy: NodeJS.Signals | null;
  constructor(killedBy: NodeJS.Signals | null) {
    super('the reader ended before it had answered');
    this.killedBy = killedBy;
  }
}

/** An answer, as JSON that nobody has parsed. */
export interface Answer {
  bytes: Buffer;
  /** Whether it says why there is none. */
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
    // Its output does not say so: nobody reads that between two questions, and another process may hold it open.
    void job.exited.then(() => {
      this.#hasExited = true;
      this.end();
    });
  }

  /** @param words start `reader/main.js` @throws {ChildError} when it cannot start */
  static async start(words: string[]): Promise<ReaderProcess> {
    return new ReaderProcess(await startJob(words, { title: 'reading the storage' }));
  }

  /** Whether it can be asked: it runs, and has said nothing since its last answer. */
  get isReady(): boolean {
    return !this.#hasExited && !this.#hasMore;
  }

  /**
   * Asks one question, after the answer to the one before.
   * @param limitBytes the reader is ended when it says more
   * @throws {ReaderEnded} also when `end` is called meanwhile
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

  /** Ends its whole process group. */
  end(): void {
    abandon(this.#job);
  }

  get #hasMore(): boolean {
    return this.#output.hasRest || this.#job.stdout.readableLength > 0;
  }

  /** @throws {Error} when it ends, or says what is no answer */
  async #answer(limitBytes: number): Promise<Answer> {
    const { bytes: size, refused } = JSON.parse(await this.#output.line());
    if (!Number.isSafeInteger(size) || size < 0 || size > limitBytes) throw new Error('this is no answer');
    const pieces: Buffer[] = [];
    for await (const piece of this.#output.bytes(size)) pieces.push(piece);
    if (this.#hasMore) throw new Error('it says more than it announced');
    return { bytes: Buffer.concat(pieces), refused: refused === true };
  }
}
