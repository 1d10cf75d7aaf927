// The bare repository of an app.

import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { cutText } from '../../handlers/contract/text.ts';
import { writeUnlessSame } from '../disk/data-directory.ts';
import { removeTree } from '../disk/remove.ts';
import { log, reason } from '../log.ts';
import { runChild } from '../processes/child.ts';
import { gitEnvironment } from './environment.ts';
import { gitProgram } from './program.ts';

const DEADLINE_MS = 30_000;
/** Maximum bytes that are read of a commit's description. */
const DESCRIPTION_BYTES = 16 * 1024;

/** The branch whose pushes are deployed, unless the app deploys tags or no pushes (`deploy_on`). */
export const DEPLOY_REF = 'refs/heads/main';

/**
 * Makes an empty bare repository, or keeps an existing one.
 * @param path of the repository; its parent is created
 */
export async function createRepository(path: string): Promise<void> {
  if (existsSync(path)) return;
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const beside = `${path}.new`;
  rmSync(beside, { recursive: true, force: true });
  await runChild(
    [...gitProgram(), 'init', '--quiet', '--bare', '--initial-branch=main', '--template=', beside],
    {
      title: 'git init',
      environment: gitEnvironment(),
      timeoutMs: DEADLINE_MS,
    },
  );
  renameSync(beside, path);
}

/** Prefix of the directories where git stores a push's objects before it accepts the push. */
const INCOMING = /^(tmp_objdir-|incoming-)/;

/**
 * Removes what interrupted pushes left in a repository; git itself never does. Never rejects.
 * @param isBusy whether a push is under way: then nothing is removed
 */
export async function removeCutPushes(repository: string, isBusy: () => boolean): Promise<void> {
  if (isBusy()) return;
  const objects = join(repository, 'objects');
  const names = (await readdir(objects).catch(() => [])).filter((name) => INCOMING.test(name));
  // A push that began meanwhile may own one of the directories.
  if (isBusy()) return;
  for (const name of names) {
    await removeTree(join(objects, name)).catch((error: unknown) =>
      log('warn', 'files of an interrupted push could not be removed', { repository, error: reason(error) }),
    );
  }
}

/** Files of a repository that keep git from changing refs while they exist, besides the locks below `refs`. */
const LOCKS = ['HEAD.lock', 'packed-refs.lock', 'packed-refs.new'];

/**
 * Removes locks of refs that a killed git process has left, because git does not remove them. Never rejects.
 * @param isBusy whether a git process may change refs now: then nothing is removed
 */
export async function removeLocks(repository: string, isBusy: () => boolean): Promise<void> {
  const below = await readdir(join(repository, 'refs'), { recursive: true }).catch(() => []);
  const locks = below.filter((name) => name.endsWith('.lock')).map((name) => join('refs', name));
  // Nothing is awaited after this check, so that no git process can start before the removal.
  if (isBusy()) return;
  try {
    for (const name of [...LOCKS, ...locks]) rmSync(join(repository, name), { force: true });
  } catch (error) {
    log('warn', 'locks of an interrupted push could not be removed', { repository, error: reason(error) });
  }
}

/** Maximum characters of an author, and of a message, in a deploy or a version. */
export const SHOWN_LENGTH = 300;

/** Returns a commit's author and subject line for a deploy. */
export async function describeCommit(
  repository: string,
  sha: string,
): Promise<{ message: string; author: string }> {
  const words = ['show', '--no-patch', '--no-show-signature', '--format=%an <%ae>%n%s', sha, '--'];
  const { output } = await runChild([...gitProgram(), '--git-dir', repository, ...words], {
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
 * Writes the hooks that all repositories share. `post-receive` sends the pushed refs to the host over file descriptor 3,
 * which is open for this push alone. It prints the reply, so that the pusher sees the deploy.
 */
export function writeHooks(directory: string): void {
  writeUnlessSame(join(directory, 'post-receive'), '#!/bin/sh\ncat >&3 && echo >&3 && exec cat <&3\n', 0o700);
}

/** The first line that the hook `reference-transaction` sends to the host. */
export const PREPARED = 'prepared';
/** The host's answer that lets git change the refs. */
export const STORED = 'stored';

/**
 * Writes the hooks for repositories in the bucket: those of `writeHooks`, and `reference-transaction`. With it, git asks the
 * host before it changes refs, after its own checks. A push of several refs may make git ask several times.
 */
export function writeAskingHooks(directory: string): void {
  writeHooks(directory);
  const ask = `[ "$1" = prepared ] || exit 0
{ echo ${PREPARED} && cat && echo; } >&3 && read -r answer <&3 && [ "$answer" = ${STORED} ]
`;
  writeUnlessSame(join(directory, 'reference-transaction'), `#!/bin/sh\n${ask}`, 0o700);
}
