// What may be in a worktree: not more than its limit, and nothing that is not the build's own.
import { execFile } from 'node:child_process';
import { relative } from 'node:path';
import { promisify } from 'node:util';
import { BuildFailure } from '../../bundler/failure.ts';
import { tooLarge } from './checkout.ts';
import { openTree } from './remove.ts';
import type { BuildUser } from './sandbox.ts';

const execute = promisify(execFile);
const TIMEOUT_MS = 60_000;

/**
 * Refuses a worktree that has grown past its limit.
 * @throws {BuildFailure} when the files below `directory` take more than `limitMb` MiB
 */
export async function checkSize(directory: string, limitMb: number, signal: AbortSignal): Promise<void> {
  const measure = () => execute('du', ['-sk', directory], options(signal));
  const { stdout } = await measure().catch(async () => {
    signal.throwIfAborted();
    await openTree(directory);
    return measure();
  });
  const megabytes = Number.parseInt(stdout, 10) / 1024;
  if (megabytes > limitMb) throw tooLarge(megabytes, limitMb);
}

/**
 * Refuses a worktree that holds files of others than its build's user. A build could link to a file that it may not
 * read; the bundler, which runs as the host, could.
 * @throws {BuildFailure} naming the first such file
 */
export async function checkOwner(directory: string, { uid }: BuildUser, signal: AbortSignal): Promise<void> {
  const search = [directory, '!', '-uid', String(uid), '-print', '-quit'];
  const { stdout } = await execute('find', search, options(signal));
  if (stdout === '') return;
  throw new BuildFailure(
    `${relative(directory, stdout.trimEnd())} is a link to a file that is not the build's own`,
  );
}

function options(signal: AbortSignal) {
  return { env: { PATH: process.env.PATH ?? '/usr/bin:/bin' }, signal, timeout: TIMEOUT_MS };
}
