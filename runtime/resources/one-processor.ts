// Work that has one processor at most. A low priority is not enough for work that nobody waits for: where the kernel does not
// interrupt itself, whoever wakes on a busy processor waits for up to a tick of its clock, 4 ms here. With one processor always
// free of such work, it wakes there.
import { readFileSync } from 'node:fs';
import { findProgram } from '../processes/programs.ts';

const TASKSET = findProgram('taskset', ['/usr/bin', '/bin', '/usr/local/bin']);

/**
 * The words before a command that keep it, and what it starts, on the last of the processors that this process may use. None
 * where `taskset` is not installed.
 */
export function onOneProcessor(): string[] {
  const allowed = /^Cpus_allowed_list:\s*\S*?(\d+)$/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
  return TASKSET === null || allowed === undefined ? [] : [TASKSET, '--cpu-list', allowed];
}
