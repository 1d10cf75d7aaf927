// How every git process that reads or writes objects of a push is started. It inherits these limits to whatever it starts.
import { limited } from '../resources/limited.ts';

/** MiB that one git process may write to. Mapped packs do not count, and files over 16 MiB are streamed. */
export const GIT_MEMORY_MB = 256;

/**
 * The words that start git, before its own arguments: with a memory limit (RLIMIT_DATA), ended before apps when memory is
 * short, and killed when the process or thread that starts it ends.
 */
export function gitProgram(): string[] {
  return [...limited(GIT_MEMORY_MB), 'git'];
}

/** Whether git said that its memory limit was reached. */
export function isOutOfMemory(said: string): boolean {
  return /Out of memory|out of memory|mmap failed: Cannot allocate memory/.test(said);
}
