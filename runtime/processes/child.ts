// Starts child processes, each from an argument list and a whole environment, in its own process group. Always handles a
// child's `error` event: a failed start, such as for lack of file descriptors, must not end the host.
import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import type { Duplex, Readable, Writable } from 'node:stream';
import { assertRoomForChild } from './descriptors.ts';

/** Maximum characters of error output in an error message. */
const EXPLANATION = 2_000;
const OUTPUT_LIMIT_BYTES = 16 * 2 ** 20;

/** A child that failed: it could not start, timed out, printed too much, or ended by a signal or with a code except 0. */
export class ChildError extends Error {
  /** `null` when it did not start, or was ended by a signal. */
  readonly exitCode: number | null;
  /** Its output, as far as it was read. */
  readonly output: string;
  /** The signal that ended it, if any. */
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
  /** The child's name in errors. Default: its program. */
  title?: string;
  /** Default: `/`, where no app can leave a configuration file that the child would read. */
  cwd?: string;
  /** The whole environment. Default: a search path and a language. */
  environment?: Record<string, string>;
  /** Default `pipe`. */
  stdin?: 'pipe' | 'ignore';
  /** Whether descriptor 3 is a channel to the host. */
  channel?: boolean;
  /** Whether it is a Node program that exchanges messages with the host. */
  messages?: boolean;
}

/** A running child, of this process or of the spawner. */
export interface Job {
  pid: number;
  stdin: Writable;
  stdout: Readable;
  stderr: Readable;
  /** Descriptor 3, if requested. */
  channel: Duplex;
  /** Resolves when the process has ended; some of its output may still be unread. */
  exited: Promise<ChildEnd>;
  /** Resolves when the process has ended and its output is closed. */
  closed: Promise<ChildEnd>;
  /** Whether the process is known to have ended. Then its id may be reused. */
  hasEnded: () => boolean;
  /** Sends a signal to its whole process group. Default `SIGKILL`. */
  end: (signal?: NodeJS.Signals) => void;
  /** Sets whether the running child keeps this process from ending. At first it does. */
  keepHost: (keeps: boolean) => void;
}

/** A child that this process started itself, not through the spawner. */
export interface Child extends Job {
  /** Only to exchange Node's IPC messages (`options.messages`). Use the other fields for everything else. */
  process: ChildProcess;
}

export interface ChildEnd {
  code: number | null;
  killedBy: NodeJS.Signals | null;
}

/** Returns how a process ended, such as `exit code 1`. */
export function shownEnd({ code, killedBy }: ChildEnd): string {
  return killedBy === null ? `exit code ${code}` : `ended by ${killedBy}`;
}

/**
 * Starts `words`, a program and its arguments. Resolves when it runs.
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
    // The listener stays for the child's whole life: without one, a later `error` event would end the host.
    child.on('error', (error) => reject(refused(title, error)));
  });
  // Ignores the error of a child that ends before it has read all its input.
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

/** Returns a function that sets whether `handles` keep this process from ending. Skips those that are null or undefined. */
export function keeper(handles: unknown[]): Job['keepHost'] {
  // Streams of children are sockets, despite their types.
  const all = handles.filter((each) => each !== null && each !== undefined) as Pick<
    Socket,
    'ref' | 'unref'
  >[];
  return (keeps) => {
    for (const each of all) each[keeps ? 'ref' : 'unref']();
  };
}

/** Returns a function that sends a signal to a child's whole process group. Default `SIGKILL`. */
export function endOfGroup(pid: number, hasEnded: () => boolean): Job['end'] {
  // Whether the whole group has ended. Its id may then be reused, and must not get a signal.
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

/** Ends a job's process group and closes its output, which a process that left the group may hold open for ever. */
export function abandon({ end, stdout, stderr }: Pick<Job, 'end' | 'stdout' | 'stderr'>): void {
  end();
  stdout.destroy();
  stderr.destroy();
}

/** A job as passed to the function that `startJobsBy` has set. */
export interface JobWords {
  words: string[];
  cwd: string;
  environment: Record<string, string>;
  /** The descriptors that become streams to this process. */
  streams: number[];
}

type Starter = (job: JobWords, isUrgent: boolean) => Promise<Job | null>;

let starter: Starter | null = null;

/** Sets the function that starts jobs. If it is null, or returns null, this process starts the job itself. */
export function startJobsBy(start: Starter | null): void {
  starter = start;
}

export interface JobOptions extends Omit<ChildOptions, 'messages'> {
  /** Whether this process starts the job itself when several others wait in the spawner. Default: it waits behind them. */
  urgent?: boolean;
}

/**
 * Starts `words` through the spawner if that runs, which does not block this thread. Resolves when `words` runs.
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

/** Error codes for too few files, processes or memory to start a child. */
const NO_ROOM = ['EMFILE', 'ENFILE', 'EAGAIN', 'ENOMEM'];

/** Returns the error code when a child could not start for lack of resources, which is not the caller's fault; else null. */
export function resourceErrorCode(error: unknown): string | null {
  const { code = '' } = (error instanceof ChildError ? error.cause : error) as NodeJS.ErrnoException;
  return NO_ROOM.includes(code) ? code : null;
}

function refused(title: string, error: unknown): ChildError {
  return new ChildError(`\`${title}\` could not start: ${(error as Error).message}`, null, '', {
    cause: error,
  });
}

export interface RunOptions extends Omit<ChildOptions, 'messages'> {
  /** Standard input. Default: empty. */
  input?: string | Uint8Array;
  /** Timeout, after which the child is ended. */
  timeoutMs: number;
  /** Maximum bytes of output. Default 16 MiB. */
  limitBytes?: number;
  /** What happens to longer output: the run fails, or the output is cut. Default `fail`. */
  longer?: 'fail' | 'cut';
  signal?: AbortSignal;
}

export interface ChildResult {
  output: Buffer;
  /** Whether the output was cut. */
  cut: boolean;
  /** The beginning of standard error, trimmed. */
  errors: string;
}

/**
 * Runs `words` to its end, and then ends its process group.
 * @throws {ChildError} when it cannot start, ends by a signal or with a code other than 0, times out, or prints too much
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
  if (code !== 0 && !cut) failure ??= `failed: ${errors || shownEnd({ code, killedBy })}`;
  if (failure !== null)
    throw new ChildError(`${title} ${failure}`, code, output.toString('utf8'), { killedBy });
  return { output, cut, errors };
}

/** Returns the environment variable that names the operator's certificate authorities, for a child that uses the bucket. */
export function trustedAuthorities(): Record<string, string> {
  const { NODE_EXTRA_CA_CERTS: path } = process.env;
  return path ? { NODE_EXTRA_CA_CERTS: path } : {};
}

/** Returns the default environment of a child: a search path and a language. */
export function cleanEnvironment(): Record<string, string> {
  return { PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin', LC_ALL: 'C.UTF-8' };
}
