// Runs git commands on an app's repository, with a timeout, an output limit and a clean environment.
import {
  ChildError,
  type ChildResult,
  type Job,
  type RunOptions,
  runChild,
  startJob,
} from '../processes/child.ts';
import { Refusal } from '../refusal.ts';
import { gitEnvironment } from './environment.ts';
import { GIT_MEMORY_MB, gitProgram, isOutOfMemory } from './program.ts';

const DEADLINE_MS = 20_000;

export type GitOptions = Partial<
  Pick<RunOptions, 'input' | 'environment' | 'limitBytes' | 'longer' | 'timeoutMs'>
>;

/** Settings of every git command here. The first two refuse names in an index that some file system treats as `.git`. */
const SETTINGS = {
  'core.protectHFS': 'true',
  'core.protectNTFS': 'true',
  'core.quotePath': 'false',
};

/**
 * Runs `git <words>` in a bare repository. Put users' text after `--end-of-options` or `--`.
 * @throws {ChildError} when it fails, or prints too much
 * @throws {Refusal} `invalid_input` over its memory limit, `host_unavailable` on a timeout
 */
export async function runGit(
  repository: string,
  words: string[],
  options: GitOptions = {},
): Promise<ChildResult> {
  const { timeoutMs = DEADLINE_MS } = options;
  try {
    return await runChild(command(repository, words), {
      ...options,
      ...place(repository, words, options.environment),
      timeoutMs,
    });
  } catch (error) {
    if (!(error instanceof ChildError)) throw error;
    const title = `\`git ${words[0]}\``;
    if (isOutOfMemory(error.message)) {
      const limit = `needs more than ${GIT_MEMORY_MB} MiB of memory for this repository`;
      throw new Refusal(400, 'invalid_input', `${title} ${limit}`);
    }
    if (!error.message.includes('took longer than')) throw error;
    const limit = `took longer than ${timeoutMs / 1000} s for this repository; ask for less, or try again`;
    throw new Refusal(503, 'host_unavailable', `${title} ${limit}`);
  }
}

/**
 * Starts `git <words>` in a bare repository, for a caller that streams its output.
 * @throws {ChildError} when it cannot start
 */
export function startGit(repository: string, words: string[]): Promise<Job> {
  return startJob(command(repository, words), { ...place(repository, words), stdin: 'ignore' });
}

function command(repository: string, words: string[]): string[] {
  return [...gitProgram(), '--git-dir', repository, ...words];
}

function place(repository: string, words: string[], environment: Record<string, string> = {}) {
  return {
    title: `git ${words[0]}`,
    cwd: repository,
    environment: { ...gitEnvironment(SETTINGS), GIT_LITERAL_PATHSPECS: '1', ...environment },
  };
}
