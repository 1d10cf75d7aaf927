// What a build's command uses where no control group limits it: looked at again and again while it runs.
import { setTimeout as sleep } from 'node:timers/promises';
import { BuildFailure } from '../../../bundler/failure.ts';
import { usageBelow } from '../../processes/processes.ts';
import { tooMuchMemory } from './memory-share.ts';

/** Between two looks, in ms. */
const LOOK_EVERY_MS = 500;
/** So many looks in all may find more busy threads than there may be: a build that starts its workers has some for a moment. */
const BUSY_LOOKS = 4;

/** What a command may use. */
export interface MostUsage {
  memoryMb: number;
  /** Threads that have a processor or wait for one; `null`: any number. */
  busyThreads: number | null;
  /** Gets the bytes of memory that each look sees. */
  onMemory?: (bytes: number) => void;
}

/**
 * Looks at what a process and all below it use, until `ended`. No limit of the kernel's for one process will do for memory:
 * Node reserves half a gigabyte for each of its threads and uses little of it.
 * @throws {BuildFailure} when they use more than they may
 */
export async function watchUsage(pid: number, most: MostUsage, ended: AbortSignal): Promise<void> {
  const { memoryMb, busyThreads, onMemory } = most;
  for (let busyLooks = 0; ; ) {
    await sleep(LOOK_EVERY_MS, undefined, { signal: ended });
    const usage = await usageBelow(pid);
    onMemory?.(usage.memoryBytes);
    if (usage.memoryBytes > memoryMb * 2 ** 20)
      throw new BuildFailure(tooMuchMemory(memoryMb, usage.memoryBytes));
    if (busyThreads !== null && usage.busyThreads > busyThreads && ++busyLooks > BUSY_LOOKS)
      throw new BuildFailure(
        `other programs keep the processors of this machine busy, and meanwhile a build may keep ${busyThreads} threads busy: push again when they do not`,
      );
  }
}
