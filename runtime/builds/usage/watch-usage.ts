// Polls the resource usage of a build's command where no control group limits it.
import { setTimeout as sleep } from 'node:timers/promises';
import { BuildFailure } from '../../../bundler/failure.ts';
import { usageBelow } from '../../processes/processes.ts';
import { tooMuchMemory } from './memory-share.ts';

/** Time between two polls, in ms. */
const LOOK_EVERY_MS = 500;
/**
 * A build fails when a counter exceeds this. Each poll with too many busy threads adds one, and each other poll subtracts
 * one, down to 0. So a build may have many busy threads for a moment, as when it starts its workers.
 */
const BUSY_LOOKS = 4;

export interface MostUsage {
  memoryMb: number;
  /** Threads that run or wait for a processor; `null`: no limit. */
  busyThreads: number | null;
  /** Called with the bytes of memory at each poll. */
  onMemory?: (bytes: number) => void;
}

/**
 * Polls the usage of a process and its descendants, until `ended` aborts. A per-process kernel limit cannot replace this:
 * Node reserves half a gigabyte for each of its threads and uses little of it.
 * @throws {BuildFailure} when they exceed a limit; {AbortError} when `ended` aborts
 */
export async function watchUsage(pid: number, most: MostUsage, ended: AbortSignal): Promise<void> {
  const { memoryMb, busyThreads, onMemory } = most;
  let busyLooks = 0;
  for (;;) {
    await sleep(LOOK_EVERY_MS, undefined, { signal: ended });
    const usage = await usageBelow(pid);
    onMemory?.(usage.memoryBytes);
    if (usage.memoryBytes > memoryMb * 2 ** 20)
      throw new BuildFailure(tooMuchMemory(memoryMb, usage.memoryBytes));
    const isBusy = busyThreads !== null && usage.busyThreads > busyThreads;
    busyLooks = Math.max(0, busyLooks + (isBusy ? 1 : -1));
    if (busyLooks > BUSY_LOOKS)
      throw new BuildFailure(
        `the build used more than ${busyThreads} threads while other programs kept the processors of this machine busy: deploy again when they are less busy`,
      );
  }
}
