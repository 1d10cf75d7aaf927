// The command of every git process that reads or writes a push's objects. Its child processes inherit the limits.
import { limited } from '../resources/limited.ts';

/** Limit of one git process's writable memory, in MiB. Mapped packs do not count, and files over 16 MiB are streamed. */
export const GIT_MEMORY_MB = 256;

/**
 * Returns the command that starts git, without git's arguments. It sets a memory limit (RLIMIT_DATA). When memory is short,
 * the kernel kills git before apps. git is killed when its parent process or thread ends.
 */
export function gitProgram(): string[] {
  return [...limited(GIT_MEMORY_MB), 'git'];
}

const OUT_OF_MEMORY =
  /\b(?:fatal|error): (?:(?:\w+: )?[Oo]ut of memory|.*(?:mmap failed|cannot be mapped).*: Cannot allocate memory)/;

/** Whether git's output reports that its memory limit was reached. Other programs may also run out of memory. */
export function isOutOfMemory(said: string): boolean {
  return OUT_OF_MEMORY.test(said);
}
