// Runs one command of a build: in its own process group, with a deadline, its output cleaned and cut into lines.
import type { Readable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { setTimeout as wait } from 'node:timers/promises';
import { BuildFailure } from '../../bundler/failure.ts';
import { cutText } from '../../handlers/contract/text.ts';
import { type ChildError, startJob } from '../machine/child.ts';
import { starvation } from '../machine/give-way.ts';
import { plainText } from '../machine/lines.ts';

/** Characters of one line of output that are kept. */
const LINE_LENGTH = 2000;
/**
 * Characters of output that are taken at once, and the pause after them, in ms: at most 6 MiB a second. The process
 * serves all apps meanwhile, so a command that prints faster has to wait.
 */
const OUTPUT_PORTION = 64 * 1024;
const OUTPUT_PAUSE_MS = 10;
/** Time that lines take of this thread before a pause, in ms: of an app with many variables each line is searched for all of them. */
const OUTPUT_PORTION_MS = 4;
/** A pause is as many times as long as what came before it took. */
const PAUSE_FACTOR = 5;
/** What a line costs besides its characters, counted in characters. */
const LINE_COST = 250;
/** What a shell ends with where it finds no program, and what that mostly means. */
const NOT_FOUND = 127;
const MISSING =
  ': a program that it calls is not installed; add its package to the dependencies of package.json';
/** How long a process that left the group may hold the output open, in ms. */
const OUTPUT_GRACE_MS = 500;

export interface Command {
  /** The program and its arguments. */
  arguments: string[];
  /** Names the command in the log and in failures, as its author would write it. */
  title: string;
  cwd: string;
  /** The whole environment: nothing else is passed on. */
  environment: Record<string, string>;
  /** Ends what left the process group. Awaited when the command has ended. */
  endRest?: () => Promise<void>;
  /** Looks at what the command, process `pid`, does, until `ended`. Once it rejects, the command is ended and fails with that. */
  watch?: (ended: AbortSignal, pid: number) => Promise<void>;
  timeoutMs: number;
  signal: AbortSignal;
  onLine: (line: string) => void;
}

/**
 * Runs `command` to its end. Whatever it started in its process group is ended with it.
 * @throws {BuildFailure} when it cannot start, fails, or takes longer than `timeoutMs`
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
  const output = [readLines(child.stdout, onLine), readLines(child.stderr, onLine)];
  try {
    const { code, killedBy } = await child.exited;
    ended.abort();
    killGroup();
    await endRest?.();
    const grace = setTimeout(() => {
      child.stdout.destroy();
      child.stderr.destroy();
    }, OUTPUT_GRACE_MS);
    await Promise.all(output);
    clearTimeout(grace);
    signal.throwIfAborted();
    if (objection !== null) throw objection;
    if (timedOut)
      throw new BuildFailure(
        `\`${title}\` took longer than ${timeoutMs / 1000} s and was ended${starvation.excuse}`,
      );
    if (code !== 0)
      throw new BuildFailure(
        `\`${title}\` failed ${code === null ? `by ${killedBy}` : `with exit code ${code}`}${code === NOT_FOUND ? MISSING : ''}`,
      );
  } finally {
    ended.abort();
    clearTimeout(timer);
    signal.removeEventListener('abort', killGroup);
  }
}

/**
 * Hands each line of `stream` on, free of terminal control, and reads no faster than the log can take it. Resolves at
 * the end of the stream, or soon after it was destroyed.
 */
async function readLines(stream: Readable, onLine: (line: string) => void): Promise<void> {
  const decoder = new StringDecoder('utf8');
  const chunks: AsyncIterator<Buffer> = stream[Symbol.asyncIterator]();
  let rest = '';
  let portion = OUTPUT_PORTION;
  let worked = 0;
  const emit = (text: string) => {
    const line = cleanLine(text);
    if (line !== '') onLine(line);
  };
  for (;;) {
    const chunk = await chunks.next().catch(() => null);
    if (chunk === null || chunk.done) break;
    const lines = (rest + decoder.write(chunk.value)).split(/\r\n|\n|\r/);
    rest = lines.pop()!;
    if (rest.length > 2 * LINE_LENGTH) {
      lines.push(rest);
      rest = '';
    }
    for (const line of lines) {
      const began = performance.now();
      emit(line);
      worked += performance.now() - began;
      portion -= line.length + LINE_COST;
      if (portion > 0 && worked < OUTPUT_PORTION_MS) continue;
      await wait(Math.max(OUTPUT_PAUSE_MS, PAUSE_FACTOR * worked));
      portion = OUTPUT_PORTION;
      worked = 0;
      if (stream.readableAborted) return onLine('… (the rest of the output is not shown)');
    }
  }
  emit(rest + decoder.end());
}

/** A line as a log may hold it, and not too long. */
function cleanLine(text: string): string {
  const line = plainText(text).trimEnd();
  return cutText(line, LINE_LENGTH, ' … (cut)');
}
