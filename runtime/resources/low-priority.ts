// Command prefixes that run a command at low priority: builds, checkouts, removals.
import { availableParallelism } from 'node:os';
import { MinimumCpuShare } from './minimum-cpu-share.ts';
import { outOfMemoryScore } from './out-of-memory.ts';

/**
 * Niceness of a process and, where the kernel has session weights, of its session. A process of normal niceness has 68 times
 * the weight of one of niceness `last`, 18 times that of `many`, 3 times that of `behind`, and twice that of `floor`.
 */
const NICE = { last: 19, many: 13, behind: 5, floor: 3 };
/** Limit of processes and threads at niceness `many`: enough for ten Node processes, and more on many cores. */
const MANY = { least: 128, perCore: 32 };
/**
 * Maximum threads for each core that are at niceness `many` and want a processor at once. A busy app gets more than all of
 * them.
 */
const BUSY_PER_CORE = 12;
/**
 * Shell script: the command runs only on idle processors if `chrt` is installed. A nice process would keep one for some ms.
 */
const IDLE = `if command -v chrt; then set -- chrt --idle 0 "$@"; else set -- nice -n ${NICE.last} "$@"; fi > /dev/null`;
const SESSION = '/proc/self/autogroup';
const nicer = (niceness: number) => `set -- nice -n ${niceness} "$@"`;

/** Watches during each deploy and import whether low-priority processes get CPU time. */
export const minimumCpuShare = new MinimumCpuShare(() => words(NICE.last, IDLE));

/**
 * Returns the command prefix for work that a project controls, such as a build command or a checkout. When memory is short,
 * the kernel kills the command and its children before apps and the host. When CPU time is short, apps and the host get it
 * first. A process cannot leave its initial scheduling class. So when there is almost no idle CPU time, the command starts
 * in the normal class, with half the weight of others.
 */
export async function atLowPriority(): Promise<string[]> {
  await minimumCpuShare.known();
  return minimumCpuShare.starved ? words(NICE.floor, nicer(NICE.floor)) : words(NICE.last, IDLE);
}

/**
 * Returns the command prefix for a program of an app that visitors wait for: others have three times its weight. When memory
 * is short, the kernel kills it before apps and the host.
 */
export function behindApps(): string[] {
  return words(NICE.behind, nicer(NICE.behind));
}

/** How to run a command at low priority that may start any number of processes. */
export interface Many {
  /** The command prefix. */
  words: string[];
  /** Limit of its processes and threads; `null`: no limit. */
  tasks: number | null;
  /** Limit of its threads that run or wait for a processor. More are allowed for a moment. `null`: no limit. */
  busyThreads: number | null;
}

/**
 * Like `atLowPriority`, for an untrusted command in a sandbox, which may start any number of processes. A process cannot
 * raise its initial weight. So when there is almost no idle CPU time, its processes start with little weight, and their
 * number is limited.
 * @param canLimit whether their number may be limited. Pass false when a control group gives them a minimum share: they then
 *   run only on idle processors
 */
export async function atLowPriorityAsMany(canLimit: boolean): Promise<Many> {
  await minimumCpuShare.known();
  const unlimited = { tasks: null, busyThreads: null };
  if (!minimumCpuShare.starved) return { ...unlimited, words: words(NICE.last, IDLE) };
  if (!canLimit) return { ...unlimited, words: words(NICE.floor, IDLE) };
  const cores = availableParallelism();
  const tasks = Math.max(MANY.least, MANY.perCore * cores);
  return { words: words(NICE.floor, nicer(NICE.many)), tasks, busyThreads: BUSY_PER_CORE * cores };
}

function words(niceOfSession: number, classOfProcess: string): string[] {
  const score = `echo ${outOfMemoryScore('build')} > /proc/self/oom_score_adj`;
  const session = `echo ${niceOfSession} > ${SESSION}`;
  // The kernel allows ordinary users together one such change per 100 ms. The command does not wait for its turn.
  const later = `for n in 1 2 3 4 5 6 7 8 9; do sleep 0.1; ${session} && break; done < /dev/null > /dev/null &`;
  const settings = `{ ${score}; ${session} || if [ -e ${SESSION} ]; then ${later} fi; } 2> /dev/null`;
  return ['/bin/sh', '-c', `${settings}; ${classOfProcess}; exec "$@"`, 'sh'];
}
