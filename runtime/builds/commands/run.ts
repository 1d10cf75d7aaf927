// Runs one command of a build: in its own process group, with a deadline.
import { BuildFailure } from '../../../bundler/failure.ts';
import { type ChildError, startJob } from '../../processes/child.ts';
import { minimumCpuShare } from '../../resources/low-priority.ts';
import { readOutput } from './read-output.ts';

/** Exit code of a shell that does not find a program. */
const NOT_FOUND = 127;
/** The usual cause of `NOT_FOUND`. */
const MISSING =
  ': a program that it calls is not installed; add its package to the dependencies of package.json';
/** Matches commands that build a Worker in Rust. */
const BUILDS_RUST = /(?:^|[\s;&|(])(?:cargo|worker-build)(?:\s|$)/;
const NO_RUST =
  ': cargo or worker-build is not installed here; build the Worker on your machine, and deploy it with `wrangler deploy`';

/** A command of a project that ended by itself, and not with code 0. */
export class CommandFailure extends BuildFailure {}

export interface Command {
  /** The program and its arguments. */
  arguments: string[];
  /** Names the command in the log and in failures, as its author would write it. */
  title: string;
  cwd: string;
  /** The whole environment: nothing else is passed on. */
  environment: Record<string, string>;
  /** Ends processes that left the process group. Awaited after the command's end. */
  endRest?: () => Promise<void>;
  /**
   * Watches the command, process `pid`, until `ended` aborts. If it rejects before, the command is killed and `run` throws
   * the error.
   */
  watch?: (ended: AbortSignal, pid: number) => Promise<void>;
  timeoutMs: number;
  signal: AbortSignal;
  onLine: (line: string) => void;
}

/**
 * Runs `command` to its end. Then ends all other processes of its process group.
 * @throws {CommandFailure} when it fails
 * @throws {BuildFailure} when it cannot start, is ended, or takes longer than `timeoutMs`
 * @throws what `watch` rejects with
 * @throws the signal's reason once it is aborted
 */
export async function run(command: Command): Promise<void> {
  const { title, cwd, environment, endRest, watch, timeoutMs, signal, onLine } = command;
  signal.throwIfAborted();
  const child = await startJob(command.arguments, { title, cwd, environment, stdin: 'ignore' }).catch(
    (error: ChildError) => {
      throw new BuildFailure(error.message);
    },
  );
  let timedOut = false;
  const timer = setTimeout(() => {
    timedOut = true;
    child.end();
  }, timeoutMs);
  const killGroup = () => child.end();
  signal.addEventListener('abort', killGroup);
  if (signal.aborted) killGroup();
  const ended = new AbortController();
  let objection: unknown = null;
  watch?.(ended.signal, child.pid).catch((error: unknown) => {
    if (ended.signal.aborted) return;
    objection = error;
    killGroup();
  });
  const gone = new AbortController();
  const output = [child.stdout, child.stderr].map((stream) => readOutput(stream, onLine, gone.signal));
  try {
    const { code, killedBy } = await child.exited;
    ended.abort();
    killGroup();
    await endRest?.();
    gone.abort();
    await Promise.all(output);
    signal.throwIfAborted();
    if (objection !== null) throw objection;
    if (timedOut)
      throw new BuildFailure(
        `\`${title}\` took longer than ${timeoutMs / 1000} s and was ended${minimumCpuShare.excuse}`,
      );
    if (code === null) throw new BuildFailure(`\`${title}\` was ended by ${killedBy}`);
    if (code !== 0) {
      const missing = BUILDS_RUST.test(title) ? NO_RUST : MISSING;
      throw new CommandFailure(
        `\`${title}\` failed with exit code ${code}${code === NOT_FOUND ? missing : ''}`,
      );
    }
  } finally {
    ended.abort();
    gone.abort();
    clearTimeout(timer);
    signal.removeEventListener('abort', killGroup);
  }
}
