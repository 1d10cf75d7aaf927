// Removes directories in child processes: a build decides how many files one holds. A build may also remove all permissions
// of a directory. Then `rm` fails unless the host is root, so the permissions are restored before the next attempt.
import { rmdir } from 'node:fs/promises';
import { runChild } from '../processes/child.ts';
import { limited } from '../resources/limited.ts';
import { atLowPriority } from '../resources/low-priority.ts';

const TIMEOUT_MS = 5 * 60_000;
/** Maximum attempts to remove a directory. A process that just ended may still write its last file. */
const ATTEMPTS = 3;

/** Removes a directory with its contents, if it exists. */
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

/** Removes an empty directory without a child process. @returns whether it is gone */
async function removeEmpty(path: string): Promise<boolean> {
  return rmdir(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code === 'ENOENT',
  );
}

/** Restores the owner's read and write permissions below a directory. */
export async function openTree(path: string): Promise<void> {
  await runChild([...limited(), 'chmod', '-R', 'u+rwX', '--', path], { timeoutMs: TIMEOUT_MS });
}
