// Runs git commands on an app's repository: with a deadline, a limit on what they print, and a clean environment.
import { type ChildResult, type Job, type RunOptions, runChild, startJob } from '../machine/child.ts';
import { BIG_FILE, gitEnvironment } from './environment.ts';

const DEADLINE_MS = 20_000;

export type GitOptions = Partial<Pick<RunOptions, 'input' | 'environment' | 'limitBytes' | 'longer'>>;

/** What every git command here is told. No name that some file system takes for `.git` gets into an index. */
const SETTINGS = {
  'core.protectHFS': 'true',
  'core.protectNTFS': 'true',
  'core.quotePath': 'false',
  'core.bigFileThreshold': BIG_FILE,
};

/**
 * Runs `git <words>` in a bare repository. Text of users belongs behind `--end-of-options` or `--`.
 * @throws {ChildError} when it fails, takes too long, or prints too much
 */
export function runGit(repository: string, words: string[], options: GitOptions = {}): Promise<ChildResult> {
  return runChild(command(repository, words), {
    ...options,
    ...place(repository, words, options.environment),
    timeoutMs: DEADLINE_MS,
  });
}

/**
 * Starts `git <words>` in a bare repository, for a caller who reads its output as it comes.
 * @throws {ChildError} when it cannot start
 */
export function startGit(repository: string, words: string[]): Promise<Job> {
  return startJob(command(repository, words), { ...place(repository, words), stdin: 'ignore' });
}

function command(repository: string, words: string[]): string[] {
  return ['git', '--git-dir', repository, ...words];
}

function place(repository: string, words: string[], environment: Record<string, string> = {}) {
  return {
    title: `git ${words[0]}`,
    cwd: repository,
    environment: { ...gitEnvironment(SETTINGS), GIT_LITERAL_PATHSPECS: '1', ...environment },
  };
}
