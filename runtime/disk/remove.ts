// Removes directories by programs of their own: how many files lie in one is up to a build, and so is closing a directory
// to everybody, and so to a host that is not root.
import { rmdir } from 'node:fs/promises';
import { runChild } from '../processes/child.ts';
import { limited } from '../resources/limited.ts';
import { atLowPriority } from '../resources/low-priority.ts';

const TIMEOUT_MS = 5 * 60_000;
/** A process that was just ended may write its last file. */
const ATTEMPTS = 3;

/** Removes a directory with all that is in it, if it is there. */
export async function removeTree(path: string): Promise<void> {
  if (await removeEmpty(path)) return;
  for (let attempt = 1; ; attempt++) {
    try {
      await runChild([...limited(), ...(await atLowPriority()), 'rm', '-rf', '--', path], {
        timeoutMs: TIMEOUT_MS,
      });
      return;
    } catch (error) {
      if (attempt === ATTEMPTS) throw error;
      await openTree(path).catch(() => {});
    }
  }
}

/** Needs no program. @returns whether nothing is there any more */
async function removeEmpty(path: string): Promise<boolean> {
  return rmdir(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
  );
}

/** Gives the owner back the right to read and change everything below a directory. */
export async function openTree(path: string): Promise<void> {
  await runChild([...limited(), 'chmod', '-R', 'u+rwX', '--', path], { timeoutMs: TIMEOUT_MS });
}
