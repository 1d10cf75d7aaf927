// Computes digests of large bodies in threads: MD5, which every object needs, is the slowest step of a write.
import { availableParallelism } from 'node:os';
import type { Worker } from 'node:worker_threads';
import { startThread } from '../../../threads/thread.ts';
import type { Algorithm, Digests } from './algorithms.ts';
import type { ToDigest } from './digest-thread.ts';

const MOST_THREADS = 4;
/** Heap limit of a thread, in MiB. The bytes to hash are not in the heap. */
const HEAP_MB = 32;
/** Limit of machine code, in MiB: V8 would reserve 500 for each thread, which count towards the process's memory limit. */
const CODE_MB = 8;
/** Idle time after which a thread ends, in ms. */
const IDLE_MS = 30_000;

/** Computes the digests of one body, whose chunks come one after another. */
export interface Digesting {
  /** Resolves when the chunk, in shared memory, may be reused. @throws {Error} when the thread ended */
  update(piece: Uint8Array): Promise<unknown>;
  /** Returns the requested digests. @throws {Error} when the thread ended */
  end(): Promise<Digests>;
  /** Call in place of `end` when the body is aborted. */
  drop(): void;
}

export class DigestThreads {
  readonly #threads: DigestThread[] = [];

  /** Begins to hash a body in an idle or a new thread. With the maximum of threads, takes the least busy one. */
  begin(algorithms: Algorithm[]): Digesting {
    const [least] = this.#threads.toSorted((a, b) => a.bodies - b.bodies);
    const isFull = this.#threads.length >= Math.min(MOST_THREADS, availableParallelism());
    if (least !== undefined && (least.bodies === 0 || isFull)) return least.begin(algorithms);
    const thread = new DigestThread(() => this.#threads.splice(this.#threads.indexOf(thread), 1));
    this.#threads.push(thread);
    return thread.begin(algorithms);
  }
}

class DigestThread {
  readonly #worker: Worker;
  readonly #onEnd: () => void;
  /** Pending answers, in the order of the requests. */
  readonly #waiting: { resolve: (answer: Digests | null) => void; reject: (error: Error) => void }[] = [];
  /** Number of bodies that the thread hashes now. */
  bodies = 0;
  #lastBody = 0;
  #ended: Error | null = null;
  #idle: NodeJS.Timeout | undefined;

  /** @param onEnd called when the thread accepts no more bodies */
  constructor(onEnd: () => void) {
    this.#onEnd = onEnd;
    this.#worker = startThread(new URL('./digest-thread.ts', import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MB, codeRangeSizeMb: CODE_MB },
    });
    this.#worker.on('message', (answer: Record<Algorithm, Uint8Array> | null) =>
      this.#waiting.shift()?.resolve(answer && asBuffers(answer)),
    );
    this.#worker.on('error', (error: Error) => this.#end(error));
    this.#worker.on('exit', () => this.#end(new Error('it exited')));
    // The thread must not keep the process alive after the host's end.
    this.#worker.unref();
  }

  begin(algorithms: Algorithm[]): Digesting {
    clearTimeout(this.#idle);
    this.bodies++;
    const body = ++this.#lastBody;
    this.#worker.postMessage({ body, begins: algorithms } satisfies ToDigest);
    return {
      update: (piece) => this.#ask({ body, piece }),
      end: async () => {
        try {
          return (await this.#ask({ body, ends: true }))!;
        } finally {
          this.#leave();
        }
      },
      drop: () => {
        this.#worker.postMessage({ body, dropped: true } satisfies ToDigest);
        this.#leave();
      },
    };
  }

  #ask(message: ToDigest): Promise<Digests | null> {
    if (this.#ended !== null) return Promise.reject(this.#ended);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#worker.postMessage(message);
    });
  }

  #leave(): void {
    if (--this.bodies > 0 || this.#ended !== null) return;
    this.#idle = setTimeout(() => {
      this.#end(new Error('nobody needed it'));
      void this.#worker.terminate();
    }, IDLE_MS).unref();
  }

  #end({ message }: Error): void {
    if (this.#ended !== null) return;
    clearTimeout(this.#idle);
    this.#ended = new Error(`a thread that hashes has ended: ${message}`);
    this.#onEnd();
    for (const { reject } of this.#waiting.splice(0)) reject(this.#ended);
  }
}

/** Converts digests to buffers: another thread's buffers arrive as plain `Uint8Array`. */
function asBuffers(digests: Record<Algorithm, Uint8Array>): Digests {
  return Object.fromEntries(Object.entries(digests).map(([name, bytes]) => [name, Buffer.from(bytes)]));
}
