// The words before a command that gives way to all others: of builds, checkouts, removals.
import { outOfMemoryScore } from './out-of-memory.ts';
import { StarvationWatch } from './starvation.ts';

/** Niceness of a session, where sessions have one, and of a process: all others are served before it, or have twice its weight. */
const NICE = { last: 19, floor: 3 };
/** Makes a program run only while nobody else wants the processor; one that is merely nice is left it for some ms. */
const IDLE = `if command -v chrt; then set -- chrt --idle 0 "$@"; else set -- nice -n ${NICE.last} "$@"; fi > /dev/null`;
const SESSION = '/proc/self/autogroup';
const NICER = `set -- nice -n ${NICE.floor} "$@"`;

/** Asked to watch during each deploy. */
export const starvation = new StarvationWatch(() => words(NICE.last, IDLE));

/**
 * The words before a command whose work a project decides, such as one of its build or the checkout of its files. They have
 * the kernel end it, and what it starts, before apps and the host when memory is short, and serve those first when the
 * processors are.
 *
 * A process may not leave the class that it begins with. So one that would get next to nothing of the processors begins in
 * that of all others, with half their weight; but not where it may be of many processes, which have so much each.
 * @param mayBeMany whether it may start processes without end, and nobody who does that is trusted
 */
export async function giveWay(mayBeMany = false): Promise<string[]> {
  await starvation.known();
  if (!starvation.starved) return words(NICE.last, IDLE);
  return words(NICE.floor, mayBeMany ? IDLE : NICER);
}

function words(niceOfSession: number, classOfProcess: string): string[] {
  const score = `echo ${outOfMemoryScore('build')} > /proc/self/oom_score_adj`;
  const session = `echo ${niceOfSession} > ${SESSION}`;
  // Of all ordinary users' sessions the kernel changes one in 100 ms. The command does not wait for that.
  const later = `for n in 1 2 3 4 5 6 7 8 9; do sleep 0.1; ${session} && break; done < /dev/null > /dev/null &`;
  const settings = `{ ${score}; ${session} || if [ -e ${SESSION} ]; then ${later} fi; } 2> /dev/null`;
  return ['/bin/sh', '-c', `${settings}; ${classOfProcess}; exec "$@"`, 'sh'];
}
