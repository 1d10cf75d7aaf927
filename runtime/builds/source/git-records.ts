// Streams git's listings record by record: a small push can make a listing larger than memory.
import { BuildFailure } from '../../../bundler/failure.ts';
import { cutText } from '../../../handlers/contract/text.ts';
import { gitProgram } from '../../git/program.ts';
import { ChildError, shownEnd, startJob } from '../../processes/child.ts';
import { atLowPriority, minimumCpuShare } from '../../resources/low-priority.ts';

/** Maximum characters of a record; a Linux path has at most 4096 bytes. */
const RECORD_LENGTH = 16 * 1024;
/** Maximum characters of git's error output in a failure. */
const EXPLANATION = 2_000;

export interface Listing {
  repository: string;
  /** The complete environment of git. */
  environment: Record<string, string>;
  timeoutMs: number;
  signal: AbortSignal;
}

/**
 * Yields the records that `git <words>` prints, each ended by a zero byte (`-z`). Ends git when the caller stops reading.
 * @throws {ChildError} when git fails
 * @throws {BuildFailure} when it takes longer than `timeoutMs`, or a record is too long
 * @throws the signal's reason once it is aborted
 */
export async function* gitRecords(words: string[], listing: Listing): AsyncGenerator<string> {
  const { repository, environment, timeoutMs, signal } = listing;
  const title = `git ${words[0]}`;
  signal.throwIfAborted();
  const child = await startJob(
    [...(await atLowPriority()), ...gitProgram(), '--git-dir', repository, ...words],
    {
      title,
      environment,
      stdin: 'ignore',
    },
  );
  let timedOut = false;
  const stop = () => {
    child.end();
    child.stdout.destroy();
  };
  const deadline = setTimeout(() => {
    timedOut = true;
    stop();
  }, timeoutMs);
  signal.addEventListener('abort', stop);
  if (signal.aborted) stop();
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors = (errors + text).slice(0, EXPLANATION);
  });
  const requireTime = () => {
    signal.throwIfAborted();
    if (timedOut)
      throw new BuildFailure(
        `\`${title}\` took longer than ${timeoutMs / 1000} s and was ended${minimumCpuShare.excuse}`,
      );
  };
  try {
    let rest = '';
    for await (const chunk of child.stdout.setEncoding('utf8') as AsyncIterable<string>) {
      const records = (rest + chunk).split('\0');
      rest = records.pop()!;
      if (rest.length > RECORD_LENGTH)
        throw new BuildFailure(`a path in the commit is too long: ${cutText(rest, 100)}…`);
      yield* records;
    }
    const ended = await child.closed;
    requireTime();
    if (ended.code !== 0)
      throw new ChildError(`${title} failed: ${errors.trim() || shownEnd(ended)}`, ended.code);
  } catch (error) {
    requireTime();
    throw error;
  } finally {
    clearTimeout(deadline);
    signal.removeEventListener('abort', stop);
    child.end();
  }
}
