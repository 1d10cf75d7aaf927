// A process of an app's user that answers questions about what the app keeps, one after another. What it says may be the work
// of an attacker: it is bounded, and goes to those alone who may see what the app keeps.
import { type Job, startJob } from '../machine/child.ts';

/** The most characters of the line that an answer begins with. */
const HEAD_LENGTH = 100;
const NEW_LINE = 10;

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

interface Asked {
  limitBytes: number;
  resolve: (answer: Answer) => void;
}

export class ReaderProcess {
  readonly #job: Job;
  #asked: Asked | null = null;
  #chunks: Buffer[] = [];
  #size = 0;
  #head: { bytes: number; refused: boolean } | null = null;
  #hasEnded = false;

  private constructor(job: Job) {
    this.#job = job;
    job.stderr.resume();
    job.stdout.on('data', (chunk: Buffer) => this.#take(chunk));
    void job.closed.then(() => {
      this.#hasEnded = true;
    });
  }

  /** @param words start `reader/main.js` @throws {ChildError} when it cannot start */
  static async start(words: string[]): Promise<ReaderProcess> {
    return new ReaderProcess(await startJob(words, { title: 'reading the storage' }));
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /**
   * Asks one question, after the answer to the one before.
   * @param limitBytes the reader is ended when it says more
   * @throws {ReaderEnded}
   * @throws the signal's reason once it is aborted; the reader is ended then
   */
  async ask(question: object, limitBytes: number, signal: AbortSignal): Promise<Answer> {
    const answered = new Promise<Answer>((resolve) => {
      this.#asked = { limitBytes, resolve };
    });
    const end = () => this.end();
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
    this.#job.stdin.write(`${JSON.stringify(question)}\n`);
    try {
      const ended = this.#job.closed.then(({ killedBy }): Promise<Answer> => {
        signal.throwIfAborted();
        throw new ReaderEnded(killedBy);
      });
      return await Promise.race([answered, ended]);
    } finally {
      signal.removeEventListener('abort', end);
    }
  }

  /** Ends its whole process group. */
  end(): void {
    this.#job.end();
    // A process that left the group may hold them open for ever.
    this.#job.stdout.destroy();
    this.#job.stderr.destroy();
  }

  #take(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#head === null) {
      const begun = Buffer.concat(this.#chunks);
      const end = begun.indexOf(NEW_LINE);
      if (end === -1 && this.#size <= HEAD_LENGTH) return;
      this.#head = headOf(begun.subarray(0, end));
      this.#chunks = [begun.subarray(end + 1)];
      this.#size -= end + 1;
    }
    const { bytes, refused } = this.#head ?? { bytes: Number.POSITIVE_INFINITY, refused: false };
    if (this.#asked === null || bytes > this.#asked.limitBytes || this.#size > bytes) this.end();
    else if (this.#size === bytes) this.#answer(this.#asked, refused);
  }

  #answer({ resolve }: Asked, refused: boolean): void {
    resolve({ bytes: Buffer.concat(this.#chunks), refused });
    this.#asked = null;
    this.#head = null;
    this.#chunks = [];
    this.#size = 0;
  }
}

function headOf(line: Buffer): { bytes: number; refused: boolean } | null {
  try {
    const { bytes, refused } = JSON.parse(line.toString('utf8'));
    return Number.isSafeInteger(bytes) && bytes >= 0 ? { bytes, refused: refused === true } : null;
  } catch {
    return null;
  }
}
