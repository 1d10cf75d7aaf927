// Starts the host's threads.
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { compileCache } from './compile-cache.ts';

export interface ThreadOptions extends Pick<WorkerOptions, 'resourceLimits' | 'workerData'> {
  /** The thread's whole environment, apart from the compile cache's variable. */
  env?: Record<string, string>;
}

/**
 * Size of V8's young generation in a thread, in MiB. When a thread's heap is full, Node enlarges it a little while it ends the
 * thread. With the default size, one collection may move more than that into the heap, which crashes the whole process.
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
