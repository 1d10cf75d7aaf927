// Starts the host's threads.
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { compileCache } from './compile-cache.ts';

export interface ThreadOptions extends Pick<WorkerOptions, 'resourceLimits' | 'workerData'> {
  /** The whole environment, besides the compile cache. */
  env?: Record<string, string>;
}

/** Starts a module in a thread, without the rest of this process's environment and arguments. */
export function startThread(module: URL, { env, ...options }: ThreadOptions): Worker {
  return new Worker(module, { ...options, env: { ...compileCache(), ...env }, argv: [], execArgv: [] });
}
