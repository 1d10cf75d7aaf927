// Reads the process table in its own thread: the table has as many entries as tenants have processes.

import { WorkerThreads } from '../threads/worker.ts';
import type * as proc from './proc.ts';

const DEADLINE_MS = 20_000;
const MODULE = new URL('./proc.ts', import.meta.url);
/** Not a shared thread: a long job there must not hide a process that takes all memory. */
const thread = new WorkerThreads(1);

/** Runs `readUsage` of `proc.ts` in the thread. @throws when the thread has too much to do */
export function readUsage(root: string, pids: number[]): Promise<ReturnType<typeof proc.readUsage>> {
  return thread.run<typeof proc.readUsage>(MODULE, 'readUsage', [root, pids], { deadlineMs: DEADLINE_MS });
}

/** Runs `killProcesses` of `proc.ts` in the thread. @throws when the thread has too much to do */
export function killProcesses(directory: string | null, uids: number[]): Promise<number[]> {
  return thread.run<typeof proc.killProcesses>(MODULE, 'killProcesses', [directory, uids], {
    deadlineMs: DEADLINE_MS,
  });
}

/** Runs `usageBelow` of `proc.ts` in the thread. @throws when the thread has too much to do */
export function usageBelow(pid: number): Promise<proc.UsageBelow> {
  return thread.run<typeof proc.usageBelow>(MODULE, 'usageBelow', [pid], { deadlineMs: DEADLINE_MS });
}

/** Runs `tasksOf` of `proc.ts` in the thread. @throws when the thread has too much to do */
export function tasksOf(uid: number): Promise<number> {
  return thread.run<typeof proc.tasksOf>(MODULE, 'tasksOf', [uid], { deadlineMs: DEADLINE_MS });
}
