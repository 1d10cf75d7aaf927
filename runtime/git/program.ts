// How every git process that reads or writes objects of a push is started. It inherits these limits to whatever it starts.
import { outOfMemoryScore } from '../machine/out-of-memory.ts';
import { dieWithParent } from '../machine/users.ts';

/** MiB that one git process may write to. Mapped packs do not count, and files over 16 MiB are streamed. */
export const GIT_MEMORY_MB = 256;

/**
 * The words that start git, before its own arguments: with a memory limit (RLIMIT_DATA), ended before apps when memory is
 * short, and killed when the process or thread that starts it ends.
 */
export function gitProgram(): string[] {
  const score = `echo ${outOfMemoryScore('build')} > /proc/self/oom_score_adj`;
  const limits = `{ ${score}; ulimit -d ${GIT_MEMORY_MB * 1024}; } 2> /dev/null; exec git "$@"`;
  return [...dieWithParent(), '/bin/sh', '-c', limits, 'sh'];
}

/** Whether git said that its memory limit was reached. */
export function isOutOfMemory(said: string): boolean {
  return /Out of memory|out of memory|mmap failed: Cannot allocate memory/.test(said);
}
