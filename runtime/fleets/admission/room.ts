// Runs the steps of a start on a host that may be out of processes.
import { noRoomCode } from '../../processes/child.ts';
import { assertRoomForChild } from '../../processes/descriptors.ts';
import { NoTurn } from './slots.ts';

/**
 * Runs a step of a start.
 * @throws {NoTurn} when the host cannot create another process, which is not the app's fault
 */
export async function inRoom<T>(step: () => Promise<T>): Promise<T> {
  try {
    assertRoomForChild();
    return await step();
  } catch (error) {
    const code = noRoomCode(error);
    if (code === null) throw error;
    throw new NoTurn(
      `the host has no room for another process (${code}): raise its limits of open files and of processes`,
      { cause: error },
    );
  }
}
