// Threads for what must not run on the gateway's: parsing and walking whatever has a size that a tenant chose. Each job
// has a deadline and a memory limit; the thread of a job that passes one is ended, and the next job gets a new thread.
import type { Worker } from 'node:worker_threads';
import { FairQueue } from '../resources/fair-queue.ts';
import { startThread } from './thread.ts';
import type { Job, JobFailure, JobReply } from './worker-thread.ts';

/** MiB of JavaScript objects that a job may have. Buffers do not count: a job bounds what it reads. */
const MEMORY_MB = 256;
/** An unused thread goes after so long, in ms. */
const IDLE_MS = 30_000;
/** Jobs with one key that wait. */
const WAITING = 200;

// biome-ignore lint/suspicious/noExplicitAny: any function can be a job
type AnyFunction = (...values: any[]) => unknown;

export interface JobOptions {
  /** It fails after this time; the time that it waits for its turn does not count. */
  deadlineMs: number;
  /** Jobs with the same key run one after another, and take turns with those of other keys. Such as an app's id. */
  key?: string;
  /** Classes of errors that the job throws for its caller. All others arrive as plain errors. */
  errors?: (abstract new (
    ...values: never[]
  ) => Error)[];
  /** Ends the job and its thread when it aborts, and what that thread has started. */
  signal?: AbortSignal | undefined;
  /** Buffers that are moved to the thread rather than copied. */
  transfer?: ArrayBuffer[];
}

/** A few threads that take any job. */
export class WorkerThreads {
  readonly #turns: FairQueue;
  readonly #idle: Thread[] = [];
  readonly #busy = new Set<Thread>();
  #closed = false;

  /** @param most threads at a time */
  constructor(most: number) {
    this.#turns = new FairQueue({
      name: 'jobs for threads',
      running: most,
      runningPerOwner: most,
      waitingPerOwner: WAITING,
    });
  }

  /**
   * Calls a function that `module` exports, in a thread. What goes in and comes out is copied.
   * @throws what the function throws; {Error} when it takes longer than its deadline or more memory than it may; {QueueFull}
   * when too many jobs with its key wait; the signal's reason when it aborts
   */
  run<F extends AnyFunction>(
    module: URL,
    name: string,
    values: Parameters<F>,
    options: JobOptions,
  ): Promise<Awaited<ReturnType<F>>> {
    const { key, signal } = options;
    const turn = { owner: key ?? '', signal, ...(key !== undefined && { key }) };
    const job = { module: module.href, name, values };
    return this.#turns.run(turn, () => this.#work(job, options) as Promise<Awaited<ReturnType<F>>>);
  }

  /** Ends all threads, and with them what they work on. */
  close(): void {
    this.#closed = true;
    for (const thread of [...this.#idle.splice(0), ...this.#busy]) thread.end(stopping());
  }

  async #work(job: Omit<Job, 'id'>, options: JobOptions): Promise<unknown> {
    const { signal } = options;
    signal?.throwIfAborted();
    if (this.#closed) throw stopping();
    const thread = this.#idle.pop() ?? new Thread((ended) => this.#drop(ended));
    this.#busy.add(thread);
    const cancel = () => thread.end(signal!.reason);
    signal?.addEventListener('abort', cancel);
    try {
      return await thread.run(job, options);
    } finally {
      signal?.removeEventListener('abort', cancel);
      this.#busy.delete(thread);
      if (!thread.ended) {
        this.#idle.push(thread);
        thread.rest();
      }
    }
  }

  /** Gives no job to a thread that has ended, also where it ended by itself while nobody needed it. */
  #drop(thread: Thread): void {
    const at = this.#idle.indexOf(thread);
    if (at !== -1) this.#idle.splice(at, 1);
  }
}

function stopping(): Error {
  return new Error('the host is stopping');
}

/** The threads that all of the host shares: one slow job does not hold up the next. */
export const threads = new WorkerThreads(2);

/** A thread, and the one job that it works on. */
class Thread {
  readonly #worker: Worker;
  readonly #onEnd: (thread: Thread) => void;
  #fail: (error: Error) => void = () => {};
  #reply: (reply: JobReply) => void = () => {};
  #lastId = 0;
  #ended = false;
  #idle: NodeJS.Timeout | undefined;

  constructor(onEnd: (thread: Thread) => void) {
    this.#onEnd = onEnd;
    this.#worker = startThread(new URL('./worker-thread.ts', import.meta.url), {
      env: { PATH: process.env.PATH ?? '' },
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    this.#worker.on('message', (reply: JobReply) => this.#reply(reply));
    this.#worker.on('error', (error: Error) => this.end(new Error(`a thread ended: ${error.message}`)));
    this.#worker.on('exit', () => this.end(new Error('a thread ended')));
  }

  get ended(): boolean {
    return this.#ended;
  }

  async run(job: Omit<Job, 'id'>, { deadlineMs, errors = [], transfer = [] }: JobOptions): Promise<unknown> {
    clearTimeout(this.#idle);
    this.#worker.ref();
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    this.#fail = reject;
    this.#reply = (reply) => {
      if (reply.id !== id) return;
      if ('failure' in reply) reject(revive(reply.failure, errors));
      else resolve(reply.result);
    };
    const deadline = setTimeout(
      () => this.end(new Error(`${job.name} took longer than ${deadlineMs / 1000} s and was ended`)),
      deadlineMs,
    );
    try {
      this.#worker.postMessage({ ...job, id } satisfies Job, transfer);
      return await promise;
    } finally {
      clearTimeout(deadline);
      this.#worker.unref();
    }
  }

  /** Waits for the next job, not for ever. */
  rest(): void {
    this.#idle = setTimeout(() => this.end(new Error('nobody needed the thread')), IDLE_MS).unref();
  }

  /** Ends the thread, and its job with `error`. */
  end(error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#idle);
    this.#onEnd(this);
    this.#fail(error);
    void this.#worker.terminate();
  }
}

function revive(
  { className, message, stack, fields }: JobFailure,
  classes: JobOptions['errors'] = [],
): Error {
  const known = classes.find(({ name }) => name === className);
  const error = new Error(message);
  if (known) Object.setPrototypeOf(error, known.prototype);
  return Object.assign(error, fields, { stack });
}
