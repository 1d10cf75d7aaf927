// Runs in a thread of `WorkerThreads`: takes one job after another.
import { flushCompileCache } from 'node:module';
import { parentPort } from 'node:worker_threads';

export interface Job {
  id: number;
  /** URL of the module that exports the function. */
  module: string;
  name: string;
  values: unknown[];
}

/** An error in a form that can be sent to another thread. A copied `Error` would lose its class. */
export interface JobFailure {
  className: string;
  message: string;
  stack: string;
  fields: Record<string, unknown>;
}

export type JobReply = { id: number; result: unknown } | { id: number; failure: JobFailure };

async function answer({ id, module, name, values }: Job): Promise<JobReply> {
  try {
    const { [name]: job } = (await import(module)) as Record<string, (...values: unknown[]) => unknown>;
    // Saves the compiled code now, because the host and this thread may be killed.
    flushCompileCache();
    return { id, result: await job!(...values) };
  } catch (thrown) {
    const error = thrown instanceof Error ? thrown : new Error(String(thrown));
    const { message, stack = '' } = error;
    // Leaves out objects, functions and symbols, because not all of them can be copied to another thread.
    const fields = Object.fromEntries(
      Object.entries(error).filter(
        ([, value]) => value === null || !['object', 'function', 'symbol'].includes(typeof value),
      ),
    );
    return { id, failure: { className: error.constructor.name, message, stack, fields } };
  }
}

parentPort!.on('message', async (job: Job) => parentPort!.postMessage(await answer(job)));
