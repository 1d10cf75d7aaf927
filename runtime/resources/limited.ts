// How programs are started that work on files of tenants: whatever these hold, neither the host nor apps go short for it.

import { dieWithParent } from '../isolation/users.ts';
import { outOfMemoryScore } from './out-of-memory.ts';

/** MiB that `du`, `find`, `cp` and the like may write to. They use some, and more for each file with several names. */
const TOOL_MEMORY_MB = 256;

/** The words before a command that the kernel ends before apps and the host when memory is short. */
export function endFirst(): string[] {
  return ['/bin/sh', '-c', `{ ${score()}; } 2> /dev/null; exec "$@"`, 'sh'];
}

/**
 * The words before a command with a memory limit (RLIMIT_DATA), ended before apps when memory is short, and killed when the
 * process or thread that starts it ends. It inherits these limits to whatever it starts.
 */
export function limited(memoryMb = TOOL_MEMORY_MB): string[] {
  const limits = `{ ${score()}; ulimit -d ${memoryMb * 1024}; } 2> /dev/null; exec "$@"`;
  return [...dieWithParent(), '/bin/sh', '-c', limits, 'sh'];
}

function score(): string {
  return `echo ${outOfMemoryScore('build')} > /proc/self/oom_score_adj`;
}
