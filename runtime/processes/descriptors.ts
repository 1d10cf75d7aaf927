// File descriptors that a child needs to start.
import { closeSync, openSync } from 'node:fs';

/** Descriptors for one start: a pair for each of three pipes, a pipe for errors, and a margin. */
const FOR_A_CHILD = 12;

/**
 * Checks for free descriptors. Call it just before starting a child: when a start fails for lack of descriptors, Node leaks
 * those it opened.
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
