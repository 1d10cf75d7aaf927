// Restricts low-priority work to one processor. Low priority alone is not enough: without kernel preemption, a process that
// wakes on a busy processor waits up to a clock tick (4 ms at 250 Hz). If the work uses only one processor, the process can
// wake on another.
import { readFileSync } from 'node:fs';
import { findProgram } from '../processes/programs.ts';

const TASKSET = findProgram('taskset', ['/usr/bin', '/bin', '/usr/local/bin']);

/**
 * Returns the command prefix that pins a command and its children to the last processor that this process may use. Empty
 * where `taskset` is not installed.
 */
export function onOneProcessor(): string[] {
  const allowed = /^Cpus_allowed_list:\s*\S*?(\d+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  return TASKSET === null || allowed === undefined ? [] : [TASKSET, '--cpu-list', allowed];
}
