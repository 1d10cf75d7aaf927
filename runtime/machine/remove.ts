// Builds may close directories to everybody, and so to a host that is not root.
import { execFile } from 'node:child_process';
import { rm } from 'node:fs/promises';
import { promisify } from 'node:util';

const execute = promisify(execFile);
const TIMEOUT_MS = 60_000;

/** Removes a directory with all that is in it, if it is there. */
export async function removeTree(path: string): Promise<void> {
  // A process that was just ended may write its last file.
  const options = { recursive: true, force: true, maxRetries: 5 };
  try {
    await rm(path, options);
  } catch {
    await openTree(path);
    await rm(path, options);
  }
}

/** Gives the owner back the right to read and change everything below a directory. */
export async function openTree(path: string): Promise<void> {
  const options = { env: { PATH: '/usr/bin:/bin' }, timeout: TIMEOUT_MS };
  await execute('chmod', ['-R', 'u+rwX', '--', path], options);
}
