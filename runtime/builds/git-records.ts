// Reads what git lists, record by record: a small push can make a listing that fits into no memory.
import { spawn } from 'node:child_process';
import { BuildFailure } from '../../bundler/failure.ts';
import { GitError } from '../git/git.ts';

/** Characters of a record; Linux has no longer path than 4096 bytes. */
const RECORD_LENGTH = 16 * 1024;
/** Characters of its error output that explain a failure. */
const EXPLANATION = 2000;

export interface Listing {
  repository: string;
  /** git's whole environment. */
  environment: Record<string, string>;
  timeoutMs: number;
  signal: AbortSignal;
}

/**
 * The records that `git <words>` prints, each ended by a zero byte (`-z`). git is ended when the caller takes no more.
 * @throws {GitError} when git fails
 * @throws {BuildFailure} when it takes longer than `timeoutMs`, or a record is too long
 * @throws the signal's reason once it is aborted
 */
export async function* gitRecords(words: string[], listing: Listing): AsyncGenerator<string> {
  const { repository, environment, timeoutMs, signal } = listing;
  const title = `git ${words[0]}`;
  const child = spawn('git', ['--git-dir', repository, ...words], {
    env: environment,
    signal,
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.on('error', reject);
    child.on('close', resolve);
  });
  // Awaited below, unless the caller stops before.
  ended.catch(() => {});
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(0, EXPLANATION);
  });
  try {
    let rest = '';
    for await (const chunk of child.stdout.setEncoding('utf8') as AsyncIterable<string>) {
      const records = (rest + chunk).split('\0');
      rest = records.pop()!;
      if (rest.length > RECORD_LENGTH)
        throw new BuildFailure(`a path in the commit is too long: ${rest.slice(0, 100)}…`);
      yield* records;
    }
    const code = await ended.catch((error: unknown) => {
      signal.throwIfAborted();
      throw error;
    });
    signal.throwIfAborted();
    if (child.killed)
      throw new BuildFailure(`\`${title}\` took longer than ${timeoutMs / 1000} s and was ended`);
    if (code !== 0) throw new GitError(`${title} failed: ${errors.trim() || `exit code ${code}`}`, code);
  } finally {
    child.kill('SIGKILL');
  }
}
