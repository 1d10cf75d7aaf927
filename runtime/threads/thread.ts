// Starts the host's threads.
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { compileCache } from './compile-cache.ts';

export interface ThreadOptions extends Pick<WorkerOptions, 'resourceLimits' | 'workerData'> {
  /** The thread's whole environment, apart from the compile cache's variable. */
  env?: Record<string, string>;
}

/**
 * Size of V8's young generation in a thread, in MiB. When a thread's heap is full, Node ends the thread, and enlarges the
 * heap a little until then. From a young generation of the default size, one collection may move more than this extra space
 * into the heap, which crashes the whole process.
 */
const YOUNG_MB = 8;

/** Starts a module in a thread, without the rest of this process's environment and arguments. */
export function startThread(module: URL, { env, resourceLimits, ...options }: ThreadOptions): Worker {
  return new Worker(module, {
    ...options,
    resourceLimits: { maxYoungGenerationSizeMb: YOUNG_MB, ...resourceLimits },
    env: { ...compileCache(), ...env },
    argv: [],
    execArgv: [],
  });
}
