// Reading and changing repositories in a thread: trees, differences and commits are as large as their authors make them.

import { ChildError } from '../machine/child.ts';
import { threads } from '../machine/worker.ts';
import { Refusal } from '../refusal.ts';
import type * as commit from './commit.ts';
import type * as source from './source.ts';

const SOURCE = new URL('./source.ts', import.meta.url);
const COMMIT = new URL('./commit.ts', import.meta.url);
/** Longer than the commands of git that a job runs one after another usually take; each has a deadline of its own. */
const DEADLINE_MS = 60_000;

/** Jobs of one repository run one after another. */
function options(repository: string) {
  return { deadlineMs: DEADLINE_MS, key: repository, errors: [Refusal, ChildError] };
}

/** `listTree` of `source.ts`, in a thread. */
export function listTree(...values: Parameters<typeof source.listTree>): Promise<source.TreePage> {
  return threads.run<typeof source.listTree>(SOURCE, 'listTree', values, options(values[0]));
}

/** `findEntry` of `source.ts`, in a thread. */
export function findEntry(...values: Parameters<typeof source.findEntry>): Promise<source.TreeEntry> {
  return threads.run<typeof source.findEntry>(SOURCE, 'findEntry', values, options(values[0]));
}

/** `diffCommits` of `source.ts`, in a thread. */
export function diffCommits(...values: Parameters<typeof source.diffCommits>): Promise<source.Diff> {
  return threads.run<typeof source.diffCommits>(SOURCE, 'diffCommits', values, options(values[0]));
}

/** `commitBody` of `commit.ts`, in a thread. */
export function commitBody(...values: Parameters<typeof commit.commitBody>): Promise<string> {
  return threads.run<typeof commit.commitBody>(COMMIT, 'commitBody', values, options(values[0]));
}
