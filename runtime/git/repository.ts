// The bare repository of an app.

import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { cutText } from '../../handlers/contract/text.ts';
import { log, reason } from '../log.ts';
import { runChild } from '../machine/child.ts';
import { writeUnlessSame } from '../machine/data-directory.ts';
import { gitEnvironment } from './environment.ts';

const DEADLINE_MS = 30_000;
/** Bytes of a commit's description that are read. */
const DESCRIPTION_BYTES = 16 * 1024;

/** The branch whose pushes deploy. */
export const DEPLOY_REF = 'refs/heads/main';

/**
 * Makes an empty bare repository, or leaves the one that is there.
 * @param path of the repository; its parent is made
 */
export async function createRepository(path: string): Promise<void> {
  if (existsSync(path)) return;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const beside = `${path}.new`;
  rmSync(beside, { recursive: true, force: true });
  await runChild(['git', 'init', '--quiet', '--bare', '--initial-branch=main', '--template=', beside], {
    title: 'git init',
    environment: gitEnvironment(),
    timeoutMs: DEADLINE_MS,
  });
  renameSync(beside, path);
}

/**
 * Removes what pushes left that were cut with the host: git itself keeps it for ever. No push may be under way.
 * @param repositories the directory of all repositories. Never rejects
 */
export async function removeCutPushes(repositories: string): Promise<void> {
  if (!existsSync(repositories)) return;
  const names = ['(', '-name', 'tmp_objdir-*', '-o', '-name', 'incoming-*', ')'];
  const found = [repositories, '-mindepth', '3', '-maxdepth', '3', '-path', '*.git/objects/*', ...names];
  await runChild(['find', ...found, '-exec', 'rm', '-rf', '--', '{}', '+'], { timeoutMs: DEADLINE_MS }).catch(
    (error: unknown) => log('warn', 'what cut pushes left could not be removed', { error: reason(error) }),
  );
}

/** Characters of a commit's author and subject that a deploy shows. */
const SHOWN_LENGTH = 300;

/** One commit's author and subject line, as a deploy shows them. */
export async function describeCommit(
  repository: string,
  sha: string,
): Promise<{ message: string; author: string }> {
  const words = ['show', '--no-patch', '--no-show-signature', '--format=%an <%ae>%n%s', sha, '--'];
  const { output } = await runChild(['git', '--git-dir', repository, ...words], {
    title: 'git show',
    environment: gitEnvironment(),
    timeoutMs: DEADLINE_MS,
    // A message may be as large as a push.
    limitBytes: DESCRIPTION_BYTES,
    longer: 'cut',
  });
  const [author = '', message = ''] = output.toString('utf8').split('\n');
  return { author: cutText(author, SHOWN_LENGTH), message: cutText(message, SHOWN_LENGTH) };
}

/**
 * Writes the hooks that all repositories share. `post-receive` hands the pushed refs to the host over descriptor 3,
 * which the host opened for this push alone, and prints what comes back: that is how a pusher sees the deploy.
 */
export function writeHooks(directory: string): void {
  writeUnlessSame(join(directory, 'post-receive'), '#!/bin/sh\ncat >&3 && echo >&3 && exec cat <&3\n', 0o700);
}
