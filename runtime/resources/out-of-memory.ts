// Order in which the kernel kills when memory is short: builds and git, then apps' processes, then the host.
import { readFileSync, writeFileSync } from 'node:fs';

/** Thousandths of the machine's memory added to a process's usage; see `oom_score_adj` in proc(5). */
const SHARES = { build: 800, cell: 500 };
const MOST = 1000;

/** Returns the `oom_score_adj` for an app's process or for a build: that of the host plus `SHARES`, at most `MOST`. */
export function outOfMemoryScore(kind: keyof typeof SHARES): number {
  return Math.min(MOST, Number(readOwn()) + SHARES[kind]);
}

/** Makes the kernel kill an app's process before the host. Its children inherit this. */
export function endBeforeHost(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, String(outOfMemoryScore('cell')));
  } catch {
    // The process has ended, or the system has no such score.
  }
}

function readOwn(): string {
  try {
    return readFileSync('/proc/self/oom_score_adj', 'utf8');
  } catch {
    return '0';
  }
}
