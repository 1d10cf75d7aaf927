// How the host starts a thread of its own, whatever runs in it.
import { Worker, type WorkerOptions } from 'node:worker_threads';
import { compileCache } from './compile-cache.ts';

export interface ThreadOptions extends Pick<WorkerOptions, 'resourceLimits' | 'workerData'> {
  /** All that it has in its environment, besides where compiled code is kept. */
  env?: Record<string, string>;
}

/** Starts a module in a thread, which gets nothing else of this process's environment or arguments. */
export function startThread(module: URL, { env, ...options }: ThreadOptions): Worker {
  return new Worker(module, { ...options, env: { ...compileCache(), ...env }, argv: [], execArgv: [] });
}
