// Command prefixes for programs that read files of tenants: no content of the files can make the host or apps run out of
// memory.

import { dieWithParent } from '../isolation/users.ts';
import { outOfMemoryScore } from './out-of-memory.ts';

/** Limit of writable memory of `du`, `find`, `cp` and the like, in MiB. They use more for each file with hard links. */
const TOOL_MEMORY_MB = 256;

/** Returns the command prefix that makes the kernel kill a command before apps and the host when memory is short. */
export function endFirst(): string[] {
  return ['/bin/sh', '-c', `{ ${score()}; } 2> /dev/null; exec "$@"`, 'sh'];
}

/**
 * Returns the command prefix with a memory limit (RLIMIT_DATA). When memory is short, the kernel kills the command before
 * apps and the host. Child processes inherit the memory limit and this order. The kernel kills the command when the thread
 * that starts it ends.
 */
export function limited(memoryMb = TOOL_MEMORY_MB): string[] {
  const limits = `{ ${score()}; ulimit -d ${memoryMb * 1024}; } 2> /dev/null; exec "$@"`;
  return [...dieWithParent(), '/bin/sh', '-c', limits, 'sh'];
}

function score(): string {
  return `echo ${outOfMemoryScore('build')} > /proc/self/oom_score_adj`;
}
