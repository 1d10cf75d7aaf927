// Worker threads for work that must not block the gateway's thread: parsing and walking input whose size a tenant chose.
// Each job has a deadline and a memory limit. Exceeding one ends the thread, and the next job gets a new thread.
import type { Worker } from 'node:worker_threads';
import { FairQueue } from '../queues/fair-queue.ts';
import { startThread } from './thread.ts';
import type { Job, JobFailure, JobReply } from './worker-thread.ts';

/** Heap limit of a job, in MiB. Buffers do not count, so each job must itself limit what it reads. */
const MEMORY_MB = 256;
/** Idle timeout of a thread, in ms. */
const IDLE_MS = 30_000;
/** Maximum number of waiting jobs of one owner. */
const WAITING = 200;

// biome-ignore lint/suspicious/noExplicitAny: any function can be a job
type AnyFunction = (...values: any[]) => unknown;

export interface JobOptions {
  /** Timeout of the job in ms, without its time in the queue. */
  deadlineMs: number;
  /** Jobs with the same key, such as an app's id, run one after another. */
  key?: string;
  /** The owner, such as an account's id: owners take turns. Default: the key; jobs with neither share one owner. */
  owner?: string;
  /** Error classes that errors keep on the way to the caller. Errors of other classes become a plain `Error`. */
  errors?: (abstract new (
    ...values: never[]
  ) => Error)[];
  /** Aborts the job and ends its thread. Programs that the thread started with `dieWithParent` end with it. */
  signal?: AbortSignal | undefined;
  /** Buffers that are moved to the thread instead of copied. */
  transfer?: ArrayBuffer[];
}

/** Reports that the thread of a job ended, because the job took too long or needed too much memory. */
export class JobEnded extends Error {}

/** A pool of threads that take any job. */
export class WorkerThreads {
  readonly #turns: FairQueue;
  readonly #idle: Thread[] = [];
  readonly #busy = new Set<Thread>();
  #closed = false;

  /**
   * @param most maximum number of threads in the pool
   * @param mostPerOwner maximum number of these threads that run jobs of one owner
   */
  constructor(most: number, mostPerOwner = most) {
    this.#turns = new FairQueue({
      name: 'jobs for threads',
      running: most,
      runningPerOwner: mostPerOwner,
      waitingPerOwner: WAITING,
    });
  }

  /**
   * Calls a function that `module` exports, in a thread. Arguments and result are copied.
   * Settles only when the job no longer runs, even after a timeout.
   * @throws what the function throws; {JobEnded} on a timeout or too much memory; {Error} after `close`; {QueueFull} when too
   *   many jobs of its owner wait; the signal's reason when it aborts
   */
  run<F extends AnyFunction>(
    module: URL,
    name: string,
    values: Parameters<F>,
    options: JobOptions,
  ): Promise<Awaited<ReturnType<F>>> {
    const { key, owner = key ?? '', signal } = options;
    const turn = { owner, signal, ...(key !== undefined && { key }) };
    const job = { module: module.href, name, values };
    return this.#turns.run(turn, () => this.#work(job, options) as Promise<Awaited<ReturnType<F>>>);
  }

  /** Ends all threads and their jobs. */
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
      // A native call, such as an SQLite statement, runs on until it returns. Until then, the thread keeps its place in the
      // pool.
      if (thread.ended) await thread.exited;
      else {
        this.#idle.push(thread);
        thread.rest();
      }
    }
  }

  /** Removes an ended thread from the pool, even one that ended by itself while idle. */
  #drop(thread: Thread): void {
    const at = this.#idle.indexOf(thread);
    if (at !== -1) this.#idle.splice(at, 1);
  }
}

function stopping(): Error {
  return new Error('the host is stopping');
}

/** The pool that the whole host shares. It has two threads, so that one slow job does not block the next. */
export const threads = new WorkerThreads(2);

/** A thread and its current job. */
class Thread {
  readonly #worker: Worker;
  readonly #onEnd: (thread: Thread) => void;
  #fail: (error: Error) => void = () => {};
  #reply: (reply: JobReply) => void = () => {};
  #lastId = 0;
  #ended = false;
  #exited: Promise<unknown> = Promise.resolve();
  #idle: NodeJS.Timeout | undefined;

  constructor(onEnd: (thread: Thread) => void) {
    this.#onEnd = onEnd;
    this.#worker = startThread(new URL('./worker-thread.ts', import.meta.url), {
      env: { PATH: process.env.PATH ?? '' },
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    this.#worker.on('message', (reply: JobReply) => this.#reply(reply));
    this.#worker.on('error', (error: Error) => this.end(new JobEnded(`a thread ended: ${error.message}`)));
    this.#worker.on('exit', () => this.end(new JobEnded('a thread ended')));
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Resolves when the ended thread no longer runs anything, such as a native call. */
  get exited(): Promise<unknown> {
    return this.#exited;
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
      () => this.end(new JobEnded(`${job.name} took longer than ${deadlineMs / 1000} s and was ended`)),
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

  /** Waits for the next job, up to the idle timeout. */
  rest(): void {
    this.#idle = setTimeout(() => this.end(new Error('the thread was idle')), IDLE_MS).unref();
  }

  /** Ends the thread, and rejects its job with `error`. */
  end(error: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#idle);
    this.#onEnd(this);
    this.#fail(error);
    this.#exited = this.#worker.terminate();
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
