// Reads and changes repositories in worker threads: trees, diffs and commits may be large.

import { ChildError } from '../processes/child.ts';
import { Refusal } from '../refusal.ts';
import { WorkerThreads } from '../threads/worker.ts';
import type * as commit from './commit.ts';
import type * as source from './source.ts';

const SOURCE = new URL('./source.ts', import.meta.url);
const COMMIT = new URL('./commit.ts', import.meta.url);
/** Timeout of a job, in ms. A job runs several git commands, each with a shorter timeout of its own. */
const DEADLINE_MS = 60_000;
/** Separate threads, so that a slow call does not delay the start of an app. */
export const sourceThreads = new WorkerThreads(2);

/** Aborts when the client has disconnected, which ends git. `undefined`: the job continues without the client. */
type Signal = AbortSignal | undefined;

// biome-ignore lint/suspicious/noExplicitAny: any function of these modules can be a job
function run<F extends (...values: any[]) => unknown>(
  module: URL,
  name: string,
  signal: Signal,
  values: Parameters<F>,
): Promise<Awaited<ReturnType<F>>> {
  return sourceThreads.run<F>(module, name, values, {
    deadlineMs: DEADLINE_MS,
    errors: [Refusal, ChildError],
    signal,
  });
}

/** Runs `listTree` of `source.ts` in a thread. */
export function listTree(signal: Signal, ...values: Parameters<typeof source.listTree>) {
  return run<typeof source.listTree>(SOURCE, 'listTree', signal, values);
}

/** Runs `findEntry` of `source.ts` in a thread. */
export function findEntry(signal: Signal, ...values: Parameters<typeof source.findEntry>) {
  return run<typeof source.findEntry>(SOURCE, 'findEntry', signal, values);
}

/** Runs `diffCommits` of `source.ts` in a thread. */
export function diffCommits(signal: Signal, ...values: Parameters<typeof source.diffCommits>) {
  return run<typeof source.diffCommits>(SOURCE, 'diffCommits', signal, values);
}

/** Runs `commitBody` of `commit.ts` in a thread. */
export function commitBody(signal: Signal, ...values: Parameters<typeof commit.commitBody>) {
  return run<typeof commit.commitBody>(COMMIT, 'commitBody', signal, values);
}
