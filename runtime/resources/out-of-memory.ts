// Who is ended when the machine is short of memory: builds and git, then apps' processes, then the host.
import { readFileSync, writeFileSync } from 'node:fs';

/** Thousandths of the machine's memory that count on top of what a process uses; see `oom_score_adj` in proc(5). */
const SHARES = { build: 800, cell: 500 };
const MOST = 1000;

/** The `oom_score_adj` of an app's process, or of a build's: above the host's, wherever that stands. */
export function outOfMemoryScore(kind: keyof typeof SHARES): number {
  return Math.min(MOST, Number(readOwn()) + SHARES[kind]);
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
