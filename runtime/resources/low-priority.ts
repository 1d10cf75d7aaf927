// The words before a command that gives way to all others: of builds, checkouts, removals.
import { availableParallelism } from 'node:os';
import { MinimumCpuShare } from './minimum-cpu-share.ts';
import { outOfMemoryScore } from './out-of-memory.ts';

/**
 * Niceness of a session, where sessions have one, and of a process: all others are served before it, have 18 times the weight
 * of one of many, or twice its weight.
 */
const NICE = { last: 19, many: 13, floor: 3 };
/** So many processes and threads are that nice together: some for each core, and ten Nodes in any case. */
const MANY = { least: 128, perCore: 32 };
/** So many of them may want a processor at once, for each core: a busy app has the greater part then. */
const BUSY_PER_CORE = 12;
/** Makes a program run only while nobody else wants the processor; one that is merely nice is left it for some ms. */
const IDLE = `if command -v chrt; then set -- chrt --idle 0 "$@"; else set -- nice -n ${NICE.last} "$@"; fi > /dev/null`;
const SESSION = '/proc/self/autogroup';
const nicer = (niceness: number) => `set -- nice -n ${niceness} "$@"`;

/** Asked to watch during each deploy. */
export const starvation = new MinimumCpuShare(() => words(NICE.last, IDLE));

/**
 * The words before a command whose work a project decides, such as one of its build or the checkout of its files. They have
 * the kernel end it, and what it starts, before apps and the host when memory is short, and serve those first when the
 * processors are.
 *
 * A process may not leave the class that it begins with. So one that would get next to nothing of the processors begins in
 * that of all others, with half their weight.
 */
export async function atLowPriority(): Promise<string[]> {
  await starvation.known();
  return starvation.starved ? words(NICE.floor, nicer(NICE.floor)) : words(NICE.last, IDLE);
}

/** How a command gives way that may start processes without end. `null`: any number. */
export interface Many {
  /** The words before it. */
  words: string[];
  /** Processes and threads that it may have. */
  tasks: number | null;
  /** Threads of it that may have a processor, or wait for one, for more than a moment. */
  busyThreads: number | null;
}

/**
 * The same for a command in a sandbox, which nobody trusts not to start processes without end: each has the weight that it
 * begins with, so one that would get next to nothing begins with little, and their number is limited.
 * @param canLimit whether that can be; where it cannot, or where a control group has a floor for them all, they stay idle
 */
export async function atLowPriorityAsMany(canLimit: boolean): Promise<Many> {
  await starvation.known();
  const unlimited = { tasks: null, busyThreads: null };
  if (!starvation.starved) return { ...unlimited, words: words(NICE.last, IDLE) };
  if (!canLimit) return { ...unlimited, words: words(NICE.floor, IDLE) };
  const cores = availableParallelism();
  const tasks = Math.max(MANY.least, MANY.perCore * cores);
  return { words: words(NICE.floor, nicer(NICE.many)), tasks, busyThreads: BUSY_PER_CORE * cores };
}

function words(niceOfSession: number, classOfProcess: string): string[] {
  const score = `echo ${outOfMemoryScore('build')} > /proc/self/oom_score_adj`;
  const session = `echo ${niceOfSession} > ${SESSION}`;
  // Of all ordinary users' sessions the kernel changes one in 100 ms. The command does not wait for that.
  const later = `for n in 1 2 3 4 5 6 7 8 9; do sleep 0.1; ${session} && break; done < /dev/null > /dev/null &`;
  const settings = `{ ${score}; ${session} || if [ -e ${SESSION} ]; then ${later} fi; } 2> /dev/null`;
  return ['/bin/sh', '-c', `${settings}; ${classOfProcess}; exec "$@"`, 'sh'];
}
