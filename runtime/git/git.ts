// Runs git commands on an app's repository: with a deadline, a limit on what they print, and a clean environment.
import { spawn } from 'node:child_process';
import { BIG_FILE, gitEnvironment } from './environment.ts';

const DEADLINE_MS = 20_000;
const OUTPUT_LIMIT_BYTES = 64 * 1024 * 1024;
const ERRORS_KEPT = 2_000;

export interface GitOptions {
  /** What the command reads. */
  input?: string | Buffer;
  /** Added to git's environment. */
  environment?: Record<string, string>;
  /** Bytes of output taken. Default 64 MiB. */
  limitBytes?: number;
  /** What to do with a longer output: fail, or take its beginning. Default `fail`. */
  longer?: 'fail' | 'cut';
}

export interface GitResult {
  output: Buffer;
  /** The output was longer than what is here. */
  cut: boolean;
  /** What it said on standard error, trimmed. */
  errors: string;
}

/** A git command that failed. The message names it and has git's own words. */
export class GitError extends Error {
  readonly exitCode: number | null;
  constructor(message: string, exitCode: number | null) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** What every git command here is told. No name that some file system takes for `.git` gets into an index. */
const SETTINGS = {
  'core.protectHFS': 'true',
  'core.protectNTFS': 'true',
  'core.quotePath': 'false',
  'core.bigFileThreshold': BIG_FILE,
};

/**
 * Runs `git <words>` in a bare repository. Text of users belongs behind `--end-of-options` or `--`.
 * @throws {GitError} when it fails, takes too long, or prints too much
 */
export async function runGit(
  repository: string,
  words: string[],
  options: GitOptions = {},
): Promise<GitResult> {
  const limit = options.limitBytes ?? OUTPUT_LIMIT_BYTES;
  const child = startGit(repository, words, options.environment);
  const title = `git ${words[0]}`;
  const parts: Buffer[] = [];
  let size = 0;
  let errors = '';
  let failure: string | null = null;
  const deadline = setTimeout(() => {
    failure = `took longer than ${DEADLINE_MS / 1000} s`;
    child.kill('SIGKILL');
  }, DEADLINE_MS);
  child.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length;
    parts.push(chunk);
    if (size > limit) child.kill('SIGKILL');
  });
  child.stderr.on('data', (chunk: Buffer) => {
    if (errors.length < ERRORS_KEPT) errors += chunk.toString('utf8');
  });
  child.stdin.on('error', () => {});
  child.stdin.end(options.input ?? '');
  const code = await new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  }).finally(() => clearTimeout(deadline));
  const cut = size > limit;
  if (cut && options.longer !== 'cut') failure ??= `printed more than ${limit} bytes`;
  if (code !== 0 && !cut) failure ??= `failed: ${errors.trim() || `exit code ${code}`}`;
  if (failure !== null) throw new GitError(`${title} ${failure}`, code);
  return { output: Buffer.concat(parts).subarray(0, limit), cut, errors: errors.trim() };
}

/** Starts `git <words>` in a bare repository, for a caller who reads its output as it comes. */
export function startGit(repository: string, words: string[], environment: Record<string, string> = {}) {
  return spawn('git', ['--git-dir', repository, ...words], {
    cwd: repository,
    env: {
      ...gitEnvironment(SETTINGS),
      GIT_LITERAL_PATHSPECS: '1',
      ...environment,
    },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}
