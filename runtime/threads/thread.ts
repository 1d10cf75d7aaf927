// Starts the host's threads.
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { compileCache } from './compile-cache.ts';

export interface ThreadOptions extends Pick<WorkerOptions, 'resourceLimits' | 'workerData'> {
  /** The whole environment, besides the compile cache. */
  env?: Record<string, string>;
}

/**
 * V8's young generation of a thread, in MiB. With the usual size one collection may move more into a full heap than Node adds to
 * it while the thread ends: then the whole process ends.
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
