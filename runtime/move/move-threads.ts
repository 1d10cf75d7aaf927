// Threads for moves only: a large app or a slow bucket must not delay other jobs.
import { WorkerThreads } from '../threads/worker.ts';

/** One move runs at a time. The other thread counts what another move would move. */
export const moveThreads = new WorkerThreads(2);
