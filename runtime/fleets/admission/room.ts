// Detects starts that fail because the host is out of processes, open files or memory.
import { resourceErrorCode } from '../../processes/child.ts';
import { assertRoomForChild } from '../../processes/descriptors.ts';
import { StartRefused } from './slots.ts';

/**
 * Runs a step of a process's start.
 * @throws {StartRefused} when the host is out of processes, open files or memory, which is not the app's fault
 */
export async function startStep<T>(step: () => Promise<T>): Promise<T> {
  try {
    assertRoomForChild();
    return await step();
  } catch (error) {
    const code = resourceErrorCode(error);
    if (code === null) throw error;
    throw new StartRefused(
      `the host has no room for another process (${code}): raise its limits of open files and of processes`,
      { cause: error },
    );
  }
}
