// Reads an app's storage in processes of the app's user (readers), without waking the app. A reader is kept for some
// seconds, because a client often reads several pages.
import { type ErrorCode, errorCodes } from '../../handlers/contract/errors.ts';
import type { User } from '../isolation/users.ts';
import { readerProgram, readerWords } from '../processes/reader.ts';
import { FairQueue, QueueFull } from '../queues/fair-queue.ts';
import { type Answer, ReaderEnded, ReaderProcess } from './reader-process.ts';

export interface ClientInfo {
  appId: string;
  /** The id of the app's account. */
  owner: string;
  /** Aborts when the client has disconnected. Then the reader ends. */
  signal?: AbortSignal | undefined;
}

/** A query for `reader/main.js`, with absolute paths. */
export type Question = { kind: string } & Record<string, unknown>;

/** The storage could not be read, or the query was invalid. */
export class ReadingRefused extends Error {
  readonly code: ErrorCode;
  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}

const READER = readerProgram(new URL('./reader/main.js', import.meta.url));
const ANSWER_BYTES = 10 * 1024 * 1024;
const DEADLINE_MS = 10_000;
const MEMORY_BYTES = 900 * 1024 * 1024;
const HEAP_MB = 128;
/** Maximum number of concurrent readers. */
const AT_ONCE = 3;
const LIMITS = { name: 'storage reads', running: AT_ONCE, runningPerOwner: 2, waitingPerOwner: 20 };
/** Maximum attempts of a query. Stopping the app's process kills its readers (SIGKILL); the query is then repeated. */
const TRIES = 3;
/** Idle time after which a reader ends, in ms. */
const IDLE_MS = 5_000;
/** A reader ends at once after an answer of more bytes than this, because such a reader holds much memory. */
const IDLE_AFTER_BYTES = 1024 * 1024;

interface Asking {
  /** The reader that answers the query; null before there is one. */
  reader: ReaderProcess | null;
  /** Why the query was cancelled; null if it was not. */
  failure: Error | null;
}

interface Idle {
  reader: ReaderProcess;
  uid: number | undefined;
  timer: NodeJS.Timeout;
}

/** Readers of apps' storage. Accounts take turns, and one app's queries run one by one. */
export class StorageReaders {
  readonly #queue = new FairQueue(LIMITS);
  readonly #running = new Set<Asking>();
  /** Idle readers by app id, at most `AT_ONCE`. */
  readonly #idle = new Map<string, Idle>();
  readonly #deadlineMs: number;
  /** Why all queries are refused; null until `close`. */
  #closed: Error | null = null;

  constructor(deadlineMs = DEADLINE_MS) {
    this.#deadlineMs = deadlineMs;
  }

  /**
   * Returns the answer to a query, as unparsed JSON.
   * @param settled resolves when the requested starts and stops of the app's process have ended. A stop kills all processes
   *   of the app's user, also readers. A query whose reader was killed is repeated after `settled`
   * @param within called when the query's turn comes: prepares the files, then calls `read`
   * @throws {ReadingRefused}; the signal's reason when the signal aborts first; {Error} when the host is stopping
   */
  async ask(
    clientInfo: ClientInfo,
    user: User | null,
    question: Question,
    settled: () => Promise<void> = () => Promise.resolve(),
    within: (read: () => Promise<Buffer>) => Promise<Buffer> = (read) => read(),
  ): Promise<Buffer> {
    const { appId, owner, signal } = clientInfo;
    try {
      return await this.#queue.run({ owner, key: appId, signal }, () =>
        within(() => this.#inTurn(clientInfo, user, question, settled)),
      );
    } catch (error) {
      if (!(error instanceof QueueFull)) throw error;
      throw new ReadingRefused('host_unavailable', error.message);
    }
  }

  close(): void {
    const failure = new Error('the host is stopping');
    this.#closed = failure;
    for (const asking of this.#running) giveUp(asking, failure);
    for (const appId of this.#idle.keys()) this.#takeIdle(appId)?.reader.end();
  }

  async #inTurn(
    { appId, signal }: ClientInfo,
    user: User | null,
    question: Question,
    settled: () => Promise<void>,
  ): Promise<Buffer> {
    const asking: Asking = { reader: null, failure: this.#closed };
    this.#running.add(asking);
    const leave = () => giveUp(asking, signal?.reason);
    signal?.addEventListener('abort', leave);
    const deadline = setTimeout(() => {
      const seconds = this.#deadlineMs / 1000;
      giveUp(
        asking,
        new ReadingRefused(
          'query_timeout',
          `the read of the storage took longer than ${seconds} s and was ended`,
        ),
      );
    }, this.#deadlineMs);
    try {
      const { bytes, refused } = await this.#answer(appId, user, question, asking, settled);
      if (refused) throw refusalOf(bytes);
      return bytes;
    } catch (error) {
      if (!(error instanceof ReaderEnded)) throw error;
      throw new ReadingRefused(
        'storage_unreadable',
        'the read needs too much memory, or the files of the storage are damaged',
      );
    } finally {
      clearTimeout(deadline);
      signal?.removeEventListener('abort', leave);
      this.#running.delete(asking);
    }
  }

  /** Queries a reader. If the reader was killed (SIGKILL) and the query was not cancelled, queries a new reader. */
  async #answer(
    appId: string,
    user: User | null,
    question: Question,
    asking: Asking,
    settled: () => Promise<void>,
  ): Promise<Answer> {
    for (let left = TRIES; ; left--) {
      if (asking.failure !== null) throw asking.failure;
      const reader = await this.#reader(appId, user);
      asking.reader = reader;
      try {
        if (asking.failure !== null) throw asking.failure;
        const answer = await reader.ask({ ...question, limitBytes: ANSWER_BYTES }, 2 * ANSWER_BYTES);
        this.#keep(appId, user, reader, answer);
        return answer;
      } catch (error) {
        reader.end();
        if (asking.failure !== null) throw asking.failure;
        const wasEnded = error instanceof ReaderEnded && error.killedBy === 'SIGKILL';
        if (!wasEnded || left === 1) throw error;
        await settled();
      }
    }
  }

  async #reader(appId: string, user: User | null): Promise<ReaderProcess> {
    const idle = this.#takeIdle(appId);
    if (idle?.reader.isReady && idle.uid === user?.uid) return idle.reader;
    idle?.reader.end();
    return ReaderProcess.start(readerWords(READER, { user, memoryBytes: MEMORY_BYTES, heapMb: HEAP_MB }));
  }

  #keep(appId: string, user: User | null, reader: ReaderProcess, { bytes }: Answer): void {
    if (bytes.length > IDLE_AFTER_BYTES || this.#closed !== null) {
      reader.end();
      return;
    }
    const timer = setTimeout(() => this.#takeIdle(appId)?.reader.end(), IDLE_MS);
    this.#idle.set(appId, { reader, uid: user?.uid, timer });
    const [oldest] = this.#idle.keys();
    if (this.#idle.size > AT_ONCE) this.#takeIdle(oldest!)?.reader.end();
  }

  #takeIdle(appId: string): Idle | null {
    const idle = this.#idle.get(appId);
    if (idle === undefined) return null;
    clearTimeout(idle.timer);
    this.#idle.delete(appId);
    return idle;
  }
}

function giveUp(asking: Asking, failure: Error): void {
  asking.failure ??= failure;
  asking.reader?.end();
}

function refusalOf(answer: Buffer): ReadingRefused {
  const { code, message } = JSON.parse(answer.toString('utf8')) as { code: ErrorCode; message: string };
  return new ReadingRefused(code in errorCodes ? code : 'storage_unreadable', String(message));
}
