// The repository that the commands of a build see: a copy of the newest commits and their tags in `.git` of the worktree.
// Nothing in it leads to the app's own repository, and no command of the host uses it.
import { appendFile, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { removeTree } from '../../disk/remove.ts';
import { gitEnvironment } from '../../git/environment.ts';
import { runGit } from '../../git/git.ts';
import { gitProgram } from '../../git/program.ts';
import { reason } from '../../log.ts';
import { quote } from '../../processes/shell.ts';
import { atLowPriority } from '../../resources/low-priority.ts';
import { run } from '../commands/run.ts';
import type { BuildInput } from '../release/build-input.ts';

/** Maximum commits that a build sees. */
const COMMITS = 50;
/** Maximum MiB of these commits' objects. */
const MAX_MB = 200;
const TIMEOUT_MS = 60_000;
const ALLOWED = ['safe.directory=*', 'uploadpack.allowAnySHA1InWant=true'];
const SETTINGS = {
  'core.hooksPath': '/dev/null',
  // A reflog would contain the path of the app's own repository.
  'core.logAllRefUpdates': 'false',
  'gc.auto': '0',
  'maintenance.auto': 'false',
  // Otherwise git unpacks small packs into one file for each object.
  'fetch.unpackLimit': '1',
};

/** Lets git ignore ctimes: the files get another owner later, which changes their ctime. */
const CONFIG = '[core]\n\tcheckStat = minimal\n\ttrustctime = false\n';

/** Returns the short name of a build's branch or tag, or `pull/5` for the pull request 5. */
export function branchOf({ ref }: Pick<BuildInput, 'ref'>): string {
  return ref.replace(/^refs\/(?:heads|tags)\//, '').replace(/^refs\/(pull\/\d+)\/head$/, '$1');
}

/**
 * Makes `.git` in a worktree that was just checked out, before any command of the project runs there. After a failure the log
 * says why, and the build goes on without history.
 * @param index path of the index that git has written for the worktree; it moves into `.git`
 * @throws the signal's reason once it is aborted
 */
export async function makeHistory(input: BuildInput, project: string, index: string): Promise<void> {
  const directory = join(project, '.git');
  try {
    const megabytes = await sizeOf(input);
    if (megabytes > MAX_MB)
      return input.log.line(
        `git has no commit history in this build: the last ${COMMITS} have ${megabytes} MiB, more than ${MAX_MB}`,
      );
    await fetchInto(project, input);
    await appendFile(join(directory, 'config'), CONFIG);
    await rename(index, join(directory, 'index'));
  } catch (error) {
    await removeTree(directory);
    input.signal.throwIfAborted();
    input.log.line(`git has no commit history in this build: ${reason(error)}`);
  }
}

async function sizeOf({ repository, sha }: BuildInput): Promise<number> {
  const words = ['rev-list', '--objects', '--disk-usage', `--max-count=${COMMITS}`, sha];
  const { output } = await runGit(repository, words);
  return Math.ceil(Number(output.toString('utf8')) / 2 ** 20);
}

async function fetchInto(project: string, input: BuildInput): Promise<void> {
  const { repository, sha, signal, log } = input;
  const branch = branchOf(input);
  const allowed = ALLOWED.map((setting) => `-c ${quote(setting)}`).join(' ');
  const fetch = [
    'fetch',
    '--quiet',
    '--no-write-fetch-head',
    '--update-head-ok',
    `--depth=${COMMITS}`,
    `--upload-pack=git ${allowed} upload-pack`,
  ];
  const steps = [
    ['init', '--quiet', '--template=', `--initial-branch=${branch}`],
    [...fetch, '--', pathToFileURL(repository).href, `${sha}:refs/heads/${branch}`],
  ];
  for (const words of steps) {
    await run({
      arguments: [...(await atLowPriority()), ...gitProgram(), ...words],
      title: `git ${words[0]}`,
      cwd: project,
      environment: { ...gitEnvironment(SETTINGS), HOME: project },
      timeoutMs: TIMEOUT_MS,
      signal,
      onLine: (line) => log.line(line),
    });
  }
}
