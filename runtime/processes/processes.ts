// Reads the process table in its own thread. This may take long, because tenants decide how many processes there are.

import { WorkerThreads } from '../threads/worker.ts';
import type * as proc from './proc.ts';

const DEADLINE_MS = 20_000;
const MODULE = new URL('./proc.ts', import.meta.url);
/** Not one of the shared threads: during a long job there, a process that takes all memory would not be noticed. */
const thread = new WorkerThreads(1);

/** Runs `readUsage` of `proc.ts` in the thread. @throws {Error} after 20 s, or when 200 calls wait already */
export function readUsage(root: string, pids: number[]): Promise<ReturnType<typeof proc.readUsage>> {
  return thread.run<typeof proc.readUsage>(MODULE, 'readUsage', [root, pids], { deadlineMs: DEADLINE_MS });
}

/** Runs `killProcesses` of `proc.ts` in the thread. @throws {Error} after 20 s, or when 200 calls wait already */
export function killProcesses(directory: string | null, uids: number[]): Promise<number[]> {
  return thread.run<typeof proc.killProcesses>(MODULE, 'killProcesses', [directory, uids], {
    deadlineMs: DEADLINE_MS,
  });
}

/** Runs `usageBelow` of `proc.ts` in the thread. @throws {Error} after 20 s, or when 200 calls wait already */
export function usageBelow(pid: number): Promise<proc.UsageBelow> {
  return thread.run<typeof proc.usageBelow>(MODULE, 'usageBelow', [pid], { deadlineMs: DEADLINE_MS });
}

/** Runs `tasksOf` of `proc.ts` in the thread. @throws {Error} after 20 s, or when 200 calls wait already */
export function tasksOf(uid: number): Promise<number> {
  return thread.run<typeof proc.tasksOf>(MODULE, 'tasksOf', [uid], { deadlineMs: DEADLINE_MS });
}
