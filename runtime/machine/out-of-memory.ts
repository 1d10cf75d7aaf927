// Who goes without when the machine is short of something: builds, then apps' processes, then the host.
import { readFileSync, writeFileSync } from 'node:fs';

/** Thousandths of the machine's memory that count on top of what a process uses; see `oom_score_adj` in proc(5). */
const SHARES = { build: 800, cell: 500 };
const MOST = 1000;
/** The niceness of a session, where sessions have one, that all others are served before. */
const LAST_NICE = 19;
/** Makes a program run only while nobody else wants the processor; one that is merely nice is left it for some ms. */
const IDLE =
  'if command -v chrt; then set -- chrt --idle 0 "$@"; else set -- nice -n 19 "$@"; fi > /dev/null';

/** The `oom_score_adj` of an app's process, or of a build's: above the host's, wherever that stands. */
function outOfMemoryScore(kind: keyof typeof SHARES): number {
  return Math.min(MOST, Number(readOwn()) + SHARES[kind]);
}

/**
 * The words before a command whose work a project decides, such as one of its build or the checkout of its files. They have
 * the kernel end it, and what it starts, before apps and the host when memory is short, and serve those first when the
 * processors are.
 */
export function giveWay(): string[] {
  const settings = { oom_score_adj: outOfMemoryScore('build'), autogroup: LAST_NICE };
  const set = Object.entries(settings).map(([file, value]) => `echo ${value} > /proc/self/${file}`);
  return ['/bin/sh', '-c', `{ ${set.join('; ')}; } 2> /dev/null; ${IDLE}; exec "$@"`, 'sh'];
}

/** Has the kernel end an app's process before the host. Whatever that process starts later is treated like it. */
export function endBeforeHost(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(outOfMemoryScore('cell')));
  } catch {
    // It has ended, or this system knows no such score.
  }
}

function readOwn(): string {
  try {
    return readFileSync('/proc/self/oom_score_adj', 'utf8');
  } catch {
    return '0';
  }
}
