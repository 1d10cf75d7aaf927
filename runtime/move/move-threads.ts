// The threads of moves: a large app or a slow bucket must not delay other apps.
import { WorkerThreads } from '../threads/worker.ts';

/** One move runs at a time; the other thread counts what the next one would move. */
export const moveThreads = new WorkerThreads(2);
