// The one way to start a child process: an argument list, a whole environment, a process group of its own, and an error
// that is always caught. A child that the system refuses, for lack of file descriptors say, must not end the host.
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Duplex, Readable, Writable } from 'node:stream';
import { assertRoomForChild } from './descriptors.ts';

/** Characters of its error output that explain a failure. */
const EXPLANATION = 2_000;
const OUTPUT_LIMIT_BYTES = 16 * 2 ** 20;

/** A child that failed: it could not start, took too long, printed too much, or ended with another code than 0. */
export class ChildError extends Error {
  /** `null` when it did not end by itself. */
  readonly exitCode: number | null;
  /** What it had printed, as far as it was taken. */
  readonly output: string;
  /** The signal that ended it, if one did. */
  readonly killedBy: NodeJS.Signals | null;
  constructor(
    message: string,
    exitCode: number | null = null,
    output = '',
    options: ErrorOptions & { killedBy?: NodeJS.Signals | null } = {},
  ) {
    super(message, options);
    this.exitCode = exitCode;
    this.output = output;
    this.killedBy = options.killedBy ?? null;
  }
}

export interface ChildOptions {
  /** Names the child in failures. Default: its program. */
  title?: string;
  /** Default: `/`, where no app can leave a configuration. */
  cwd?: string;
  /** The whole environment. Default: a search path and nothing else. */
  environment?: Record<string, string>;
  /** Default `pipe`. */
  stdin?: 'pipe' | 'ignore';
  /** Whether it has a channel to the host as its descriptor 3. */
  channel?: boolean;
  /** Whether it is a Node program that takes and sends messages. */
  messages?: boolean;
}

/** A child that runs, of this process or of the one that starts jobs for it. */
export interface Job {
  pid: number;
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  /** Its descriptor 3, if that was asked for. */
  channel: Duplex;
  /** Resolves when the process has ended; some of its output may not be read yet. */
  exited: Promise<ChildEnd>;
  /** Resolves when the process has ended and its output is closed. */
  closed: Promise<ChildEnd>;
  /** Whether the process has ended, as far as this process has heard: its number may be another's. */
  hasEnded: () => boolean;
  /** Sends a signal to its whole process group. Default `SIGKILL`. */
  end: (signal?: NodeJS.Signals) => void;
  /** Says whether it keeps this process from ending while it runs, as it does at first. */
  keepHost: (keeps: boolean) => void;
}

/** A child of this very process. */
export interface Child extends Job {
  /** For its messages; all else is here. */
  process: ChildProcess;
}

export interface ChildEnd {
  code: number | null;
  killedBy: NodeJS.Signals | null;
}

/**
 * Starts `words` and resolves when it runs.
 * @throws {ChildError} when it cannot start
 */
export async function startChild(words: string[], options: ChildOptions = {}): Promise<Child> {
  const { title = words[0]!, cwd = '/', environment = cleanEnvironment() } = options;
  const extra = options.messages ? (['ipc'] as const) : options.channel ? (['pipe'] as const) : [];
  let child: ChildProcess;
  try {
    assertRoomForChild();
    child = spawn(words[0]!, words.slice(1), {
      cwd,
      env: environment,
      detached: true,
      stdio: [options.stdin ?? 'pipe', 'pipe', 'pipe', ...extra],
    });
  } catch (error) {
    throw refused(title, error);
  }
  const exited = new Promise<ChildEnd>((resolve) => {
    child.on('exit', (code, killedBy) => resolve({ code, killedBy }));
  });
  const closed = new Promise<ChildEnd>((resolve) => {
    child.on('close', (code, killedBy) => resolve({ code, killedBy }));
  });
  await new Promise<void>((resolve, reject) => {
    child.on('spawn', resolve);
    // It stays for the child's whole life.
    child.on('error', (error) => reject(refused(title, error)));
  });
  // A child may end before it has read everything.
  child.stdin?.on('error', () => {});
  const hasEnded = () => child.exitCode !== null || child.signalCode !== null;
  return {
    pid: child.pid!,
    process: child,
    stdin: child.stdin!,
    stdout: child.stdout!,
    stderr: child.stderr!,
    channel: child.stdio[3] as Duplex,
    exited,
    closed,
    hasEnded,
    end: endOfGroup(child.pid!, hasEnded),
    keepHost: keeper([child, child.channel, ...child.stdio]),
  };
}

/** A function that says of handles, among which nothing may be, whether they keep this process from ending. */
export function keeper(handles: unknown[]): Job['keepHost'] {
  // Streams of children are sockets, whatever their types say.
  const all = handles.filter((each) => each !== null && each !== undefined) as Pick<
    Socket,
    'ref' | 'unref'
  >[];
  return (keeps) => {
    for (const each of all) each[keeps ? 'ref' : 'unref']();
  };
}

/** A function that sends a signal to a child's whole process group, `SIGKILL` unless it is told another. */
export function endOfGroup(pid: number, hasEnded: () => boolean): Job['end'] {
  // When the whole group has ended, its number may be given to other processes.
  let isGone = false;
  return (signal = 'SIGKILL') => {
    if (isGone) return;
    const isLast = hasEnded() && signal === 'SIGKILL';
    try {
      process.kill(-pid, signal);
      isGone = isLast;
    } catch (error) {
      isGone = (error as NodeJS.ErrnoException).code === 'ESRCH';
    }
  };
}

/** Ends a job's whole process group, and its output, which a process that left the group may hold open for ever. */
export function abandon({ end, stdout, stderr }: Pick<Job, 'end' | 'stdout' | 'stderr'>): void {
  end();
  stdout.destroy();
  stderr.destroy();
}

/** A job, as whoever starts it in this process's place has to know it. */
export interface JobWords {
  words: string[];
  cwd: string;
  environment: Record<string, string>;
  /** The descriptors that are to be streams to this process. */
  streams: number[];
}

type Starter = (job: JobWords, isUrgent: boolean) => Promise<Job | null>;

let starter: Starter | null = null;

/** Says who starts jobs; null: this process itself, as it does when it is answered null. */
export function startJobsBy(start: Starter | null): void {
  starter = start;
}

export interface JobOptions extends Omit<ChildOptions, 'messages'> {
  /** Whether it is started by this process rather than wait for many others. Default: it waits. */
  urgent?: boolean;
}

/**
 * Starts `words` where that delays nothing else, and resolves when it runs.
 * @throws {ChildError} when it cannot start
 */
export async function startJob(words: string[], options: JobOptions = {}): Promise<Job> {
  const { title = words[0]!, cwd = '/', environment = cleanEnvironment(), urgent = false } = options;
  const streams = [...(options.stdin === 'ignore' ? [] : [0]), 1, 2, ...(options.channel ? [3] : [])];
  let job: Job | null = null;
  try {
    if (starter !== null) {
      assertRoomForChild();
      job = await starter({ words, cwd, environment, streams }, urgent);
    }
  } catch (error) {
    throw refused(title, error);
  }
  return job ?? startChild(words, options);
}

/** What the system says when this process may have no more files, processes or memory for a child. */
const NO_ROOM = ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'];

/** The system's code when a child could not be started for want of room, which is no fault of whoever asked for it; else null. */
export function noRoomCode(error: unknown): string | null {
  const { code = '' } = (error instanceof ChildError ? error.cause : error) as NodeJS.ErrnoException;
  return NO_ROOM.includes(code) ? code : null;
}

function refused(title: string, error: unknown): ChildError {
  return new ChildError(`\`${title}\` could not start: ${(error as Error).message}`, null, '', {
    cause: error,
  });
}

export interface RunOptions extends Omit<ChildOptions, 'messages'> {
  /** What it reads. Default: nothing. */
  input?: string | Uint8Array;
  /** It is ended after this time. */
  timeoutMs: number;
  /** Bytes of output that are taken. Default 16 MiB. */
  limitBytes?: number;
  /** What a longer output means: a failure, or that its beginning is taken. Default `fail`. */
  longer?: 'fail' | 'cut';
  signal?: AbortSignal;
}

export interface ChildResult {
  output: Buffer;
  /** The output was longer than what is here. */
  cut: boolean;
  /** The beginning of what it said on standard error, trimmed. */
  errors: string;
}

/**
 * Runs `words` to its end, and ends what it left in its process group.
 * @throws {ChildError} unless it ends with code 0, in time, having printed no more than may be
 * @throws the signal's reason once it is aborted
 */
export async function runChild(words: string[], options: RunOptions): Promise<ChildResult> {
  const { title = words[0]!, timeoutMs, limitBytes = OUTPUT_LIMIT_BYTES, signal } = options;
  signal?.throwIfAborted();
  const child = await startJob(words, options);
  const chunks: Buffer[] = [];
  let size = 0;
  let errors = '';
  let failure: string | null = null;
  const stop = () => abandon(child);
  const deadline = setTimeout(() => {
    failure = `took longer than ${timeoutMs / 1000} s`;
    stop();
  }, timeoutMs);
  signal?.addEventListener('abort', stop);
  if (signal?.aborted) stop();
  child.stdout.on('data', (chunk: Buffer) => {
    size += chunk.length;
    chunks.push(chunk);
    if (size > limitBytes) stop();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    if (errors.length < EXPLANATION) errors += chunk.toString('utf8');
  });
  child.stdin?.end(options.input ?? '');
  const { code, killedBy } = await child.closed;
  clearTimeout(deadline);
  signal?.removeEventListener('abort', stop);
  child.end();
  signal?.throwIfAborted();
  const output = Buffer.concat(chunks).subarray(0, limitBytes);
  const cut = size > limitBytes;
  if (cut && options.longer !== 'cut') failure ??= `printed more than ${limitBytes} bytes`;
  errors = errors.slice(0, EXPLANATION).trim();
  if (code !== 0 && !cut) failure ??= `failed: ${errors || `exit code ${code}`}`;
  if (failure !== null)
    throw new ChildError(`${title} ${failure}`, code, output.toString('utf8'), { killedBy });
  return { output, cut, errors };
}

/** What a child has in its environment when nothing else is said: a search path and a language. */
export function cleanEnvironment(): Record<string, string> {
  return { PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C.UTF-8' };
}
