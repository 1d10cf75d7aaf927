// A thread that polls `/proc` for two workerd processes on one app's storage.
import { setInterval } from 'node:timers';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { processes } from '../processes.ts';

/** Polling interval in ms. workerd takes longer than this to start, so each process is seen at least once. */
const EVERY_MS = 10;

export interface Watched {
  /** Number of polls. */
  looks: number;
  /** Pids of all workerd processes that used the directory. */
  pids: number[];
  /** The pids of each poll that saw several processes at the same time. */
  together: number[][];
}

/** Watches workerd processes with a path below `directory` in their command. Call the returned function to stop. */
export function watchStorage(directory: string): () => Promise<Watched> {
  const worker = new Worker(new URL(import.meta.url), { workerData: directory });
  const ended = new Promise<Watched>((resolve, reject) => {
    worker.once('message', resolve);
    worker.once('error', reject);
  });
  return () => {
    worker.postMessage('end');
    return ended;
  };
}

function watch(directory: string): void {
  const pids = new Set<number>();
  const together: number[][] = [];
  let looks = 0;
  const onStorage = () =>
    processes(
      (command) => command.includes('serve') && command.some((word) => word.includes(`=${directory}/`)),
    ).map(({ pid }) => pid);
  const timer = setInterval(() => {
    const seen = onStorage();
    looks++;
    for (const pid of seen) pids.add(pid);
    if (seen.length < 2) return;
    // Reading `/proc` takes time: the first process may have ended before the second one started. So reads `/proc` again, and
    // counts only an overlap that it still sees.
    const later = onStorage();
    if (seen.slice(0, -1).some((pid) => later.includes(pid))) together.push(seen);
  }, EVERY_MS);
  parentPort!.once('message', () => {
    clearInterval(timer);
    parentPort!.postMessage({ looks, pids: [...pids], together } satisfies Watched);
  });
}

if (!isMainThread) watch(workerData as string);
