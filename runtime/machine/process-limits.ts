// What the kernel refuses a process beyond.
import { existsSync } from 'node:fs';

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
