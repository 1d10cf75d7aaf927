// What the kernel refuses a process beyond.
import { existsSync } from 'node:fs';
import { release } from 'node:os';
import { tasksOf } from '../processes/processes.ts';

/** The first Linux that counts the processes of a user namespace by themselves. */
const COUNTS_NAMESPACES = [5, 14] as const;
const PRLIMIT = ['/usr/bin/prlimit', '/bin/prlimit', '/usr/local/bin/prlimit'].find((path) =>
  existsSync(path),
);

/**
 * The words before a command that bound the memory it may write to (RLIMIT_DATA): an allocation beyond it fails. None
 * where `prlimit` is not installed.
 */
export function withDataLimit(bytes: number): string[] {
  return PRLIMIT === undefined ? [] : [PRLIMIT, `--data=${bytes}`, '--'];
}

/** Whether `withTaskLimit` can limit anything on this machine. */
export const canLimitTasks = PRLIMIT !== undefined;

/**
 * The words before a command that bound the processes and threads which it and all others of its user may have (RLIMIT_NPROC).
 * Those that the user has already are left out of the number, for an ordinary user's browser alone may have a thousand threads.
 * None where `prlimit` is not installed.
 * @param isInNamespace whether the command begins a user namespace: the kernel counts only what runs there, since Linux 5.14
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
