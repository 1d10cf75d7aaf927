// Kernel limits of a process.
import { existsSync } from 'node:fs';
import { release } from 'node:os';
import { tasksOf } from '../processes/processes.ts';

/** The first Linux version (5.14) that counts the processes of each user namespace separately. */
const COUNTS_NAMESPACES = [5, 14] as const;
const PRLIMIT = ['/usr/bin/prlimit', '/bin/prlimit', '/usr/local/bin/prlimit'].find((path) =>
  existsSync(path),
);

/**
 * Returns the command prefix that limits writable memory (RLIMIT_DATA): an allocation beyond it fails. Empty where `prlimit`
 * is not installed.
 */
export function withDataLimit(bytes: number): string[] {
  return PRLIMIT === undefined ? [] : [PRLIMIT, `--data=${bytes}`, '--'];
}

/** Whether `withTaskLimit` works on this machine. */
export const canLimitTasks = PRLIMIT !== undefined;

/**
 * Returns the command prefix that limits the processes and threads of the command's user (RLIMIT_NPROC). The limit is
 * `tasks` more than exist now: an ordinary user's browser alone may have a thousand threads. Empty where `prlimit` is not
 * installed.
 * @param isInNamespace whether the command starts a user namespace: since Linux 5.14 the kernel counts only processes inside
 *   it
 */
export async function withTaskLimit(uid: number, tasks: number, isInNamespace: boolean): Promise<string[]> {
  if (PRLIMIT === undefined) return [];
  const [major = 0, minor = 0] = release()
    .split('.')
    .map((part) => Number.parseInt(part, 10));
  const [from, since] = COUNTS_NAMESPACES;
  const isCountedApart = isInNamespace && (major > from || (major === from && minor >= since));
  return [PRLIMIT, `--nproc=${tasks + (isCountedApart ? 0 : await tasksOf(uid))}`, '--'];
}
