// The disk space of a worktree.
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { tooLarge } from './checkout.ts';

const execute = promisify(execFile);
const TIMEOUT_MS = 60_000;

/**
 * Refuses a worktree that has grown past its limit.
 * @throws {BuildFailure} when the files below `directory` take more than `limitMb` MiB
 */
export async function checkSize(directory: string, limitMb: number, signal: AbortSignal): Promise<void> {
  const { stdout } = await execute('du', ['-sk', directory], {
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
    signal,
    timeout: TIMEOUT_MS,
  });
  const megabytes = Number.parseInt(stdout, 10) / 1024;
  if (megabytes > limitMb) throw tooLarge(megabytes, limitMb);
}
