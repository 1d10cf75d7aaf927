// What an app keeps, read by a process of the app's user that the host starts for each question: a sleeping app sleeps on.
import { type ErrorCode, errorCodes } from '../../handlers/contract/errors.ts';
import { ChildError, type ChildResult, type RunOptions, runChild } from '../machine/child.ts';
import { readerProgram, readerWords } from '../machine/reader.ts';
import type { User } from '../machine/users.ts';

/** Where one question is answered: the words of `reader/main.js`, with absolute paths. */
export type Question = { kind: string } & Record<string, unknown>;

/** What an app keeps could not be read, or not as it was asked for. */
export class ReadingRefused extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

const READER = readerProgram(new URL('./reader/main.js', import.meta.url));
/** The exit code with which it says why it does not answer. */
const REFUSED = 3;
const ANSWER_BYTES = 10 * 1024 * 1024;
const DEADLINE_MS = 10_000;
const MEMORY_BYTES = 900 * 1024 * 1024;
const HEAP_MB = 128;
/** Readers at a time, and questions that wait: each of an app waits for the one before. */
const AT_ONCE = 3;
const WAITING = 100;
/** How often a reader is started that somebody else ends. */
const TRIES = 3;

/** Readers of apps' storage, in turns. */
export class StorageReaders {
  readonly #running = new Set<string>();
  readonly #waiting: { appId: string; begin: () => void }[] = [];
  readonly #closing = new AbortController();
  readonly #deadlineMs: number;

  constructor(deadlineMs = DEADLINE_MS) {
    this.#deadlineMs = deadlineMs;
  }

  /**
   * The answer to a question, as JSON that nobody has parsed.
   * @param settled resolves when nothing is being done to the app's process: to stop it ends all processes of its user
   * @throws {ReadingRefused}
   */
  async ask(
    appId: string,
    user: User | null,
    question: Question,
    settled: () => Promise<void> = () => Promise.resolve(),
  ): Promise<Buffer> {
    await this.#turn(appId);
    const deadline = AbortSignal.timeout(this.#deadlineMs);
    try {
      const signal = AbortSignal.any([deadline, this.#closing.signal]);
      const { output } = await runAgain(
        readerWords(READER, { user, memoryBytes: MEMORY_BYTES, heapMb: HEAP_MB }),
        {
          title: 'reading the storage',
          input: JSON.stringify({ ...question, limitBytes: ANSWER_BYTES }),
          timeoutMs: 2 * this.#deadlineMs,
          limitBytes: 2 * ANSWER_BYTES,
          signal,
        },
        settled,
      );
      return output;
    } catch (error) {
      if (deadline.aborted)
        throw new ReadingRefused(
          'query_timeout',
          `it took longer than ${this.#deadlineMs / 1000} s and was ended`,
        );
      throw refusalOf(error);
    } finally {
      this.#running.delete(appId);
      this.#advance();
    }
  }

  /** Ends all readers. */
  close(): void {
    this.#closing.abort(new Error('the host is stopping'));
  }

  #turn(appId: string): Promise<void> {
    if (this.#waiting.length >= WAITING)
      throw new ReadingRefused('host_unavailable', 'too many readings wait; try again soon');
    return new Promise((resolve) => {
      this.#waiting.push({ appId, begin: resolve });
      this.#advance();
    });
  }

  #advance(): void {
    while (this.#running.size < AT_ONCE) {
      const at = this.#waiting.findIndex(({ appId }) => !this.#running.has(appId));
      if (at === -1) return;
      const { appId, begin } = this.#waiting.splice(at, 1)[0]!;
      this.#running.add(appId);
      begin();
    }
  }
}

/** Starts a process again that somebody else has ended. */
async function runAgain(
  words: string[],
  options: RunOptions,
  settled: () => Promise<void>,
): Promise<ChildResult> {
  for (let left = TRIES - 1; ; left--) {
    try {
      return await runChild(words, options);
    } catch (error) {
      const wasEnded = error instanceof ChildError && error.killedBy === 'SIGKILL';
      if (!wasEnded || left === 0) throw error;
      await settled();
    }
  }
}

function refusalOf(error: unknown): unknown {
  if (!(error instanceof ChildError)) return error;
  if (error.exitCode !== REFUSED)
    return new ReadingRefused(
      'storage_unreadable',
      'it needs more memory than a reading may use, or its files are damaged',
    );
  const { code, message } = JSON.parse(error.output) as { code: ErrorCode; message: string };
  return new ReadingRefused(code in errorCodes ? code : 'storage_unreadable', String(message));
}
