// Open files of this process, of which a child takes some to start.
import { closeSync, openSync } from 'node:fs';

/** What a child takes while it is started: a pair for each of three pipes, a pipe for errors, and some to spare. */
const FOR_A_CHILD = 12;

/**
 * To be called just before a child is started. Node closes none of the descriptors of a child that failed for want of
 * them, so that each try would leave fewer.
 * @throws {Error} with code EMFILE or ENFILE when there are too few
 */
export function assertRoomForChild(): void {
  const taken: number[] = [];
  try {
    while (taken.length < FOR_A_CHILD) taken.push(openSync('/dev/null', 'r'));
  } finally {
    for (const descriptor of taken) closeSync(descriptor);
  }
}
