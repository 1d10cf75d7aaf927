// A thread that watches the kernel's list of processes for two of workerd on one app's storage.
import { setInterval } from 'node:timers';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { processes } from './processes.ts';

/** How often it looks, in ms. A process of workerd takes longer than that to start, and has its storage all the time. */
const EVERY_MS = 10;

/** What a watch saw. */
export interface Watched {
  looks: number;
  /** Every process of workerd that was seen on the directory. */
  pids: number[];
  /** Each moment with several at once, as their pids. */
  together: number[][];
}

/** Watches for processes of workerd with a path below `directory` in their command, until the result is called. */
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
    // Processes are read one after another: one that was read before the last may have ended before that began.
    const later = onStorage();
    if (seen.slice(0, -1).some((pid) => later.includes(pid))) together.push(seen);
  }, EVERY_MS);
  parentPort!.once('message', () => {
    clearInterval(timer);
    parentPort!.postMessage({ looks, pids: [...pids], together } satisfies Watched);
  });
}

if (!isMainThread) watch(workerData as string);
