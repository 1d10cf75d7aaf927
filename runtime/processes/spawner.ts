// Apps' processes, and children that end by themselves, are started by a small process instead of by the host. A fork copies
// what the host has of page tables, 1.5 ms for each 100 MB that it uses, and no request is answered until the child has become
// its program.
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import type { Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { log, reason } from '../log.ts';
import { createHandleServer, type SocketHandle, socketOf } from '../sockets/socket-handle.ts';
import {
  type Child,
  type ChildEnd,
  endOfGroup,
  type Job,
  type JobWords,
  keeper,
  startChild,
  startJobsBy,
} from './child.ts';

const PROGRAM = new URL('./spawner-program.js', import.meta.url).pathname;
/** A child takes about 3 ms to start; a spawner that starts none for so many seconds, of which jobs wait, is replaced. */
const STALLED_S = 20;
/** Time before an ended spawner is started again, in ms. The host starts its children itself meanwhile. */
const RESTART_MS = 1_000;
/** Jobs that may wait to be started, about three seconds of work. One more is refused. */
const WAITING_LIMIT = 1_000;
/** Jobs behind which an urgent one waits, about as long as this process would stand still to start it. */
const BEFORE_URGENT = 4;
/** Streams of a child that runs wait to be taken already. One that is not there after so many seconds is lost. */
const STREAMS_S = 5;
/** What each stream begins with: the job's id and the descriptor that it is of that job, then blanks. */
const LABEL_BYTES = 24;
/** Connections that may wait to be taken: the streams of all those jobs. */
const BACKLOG = 4 * WAITING_LIMIT;

/** A line to the spawner. */
interface JobRequest extends JobWords {
  id: number;
}

/** A line from it: a child runs, could not be started, was not even tried for want of its streams, or has ended. */
type JobReply =
  | { id: number; pid: number }
  | { id: number; unstarted: true }
  | { id: number; failure: { message: string; code?: string } }
  | ({ id: number } & ChildEnd);

/** A child that is being started, or runs. */
interface Started {
  /** The descriptors that are to be streams. */
  descriptors: number[];
  /** Those that lead here already, by their descriptors. */
  streams: Map<number, Socket>;
  /** Of the process, while it runs. */
  runs: number | null;
  /** Null when the spawner could not come to this process with its streams. */
  pid: PromiseWithResolvers<number | null>;
  connected: PromiseWithResolvers<void>;
  exited: PromiseWithResolvers<ChildEnd>;
}

/** The process that starts jobs for this one. While there is none, this process starts them itself. */
export class Spawner {
  readonly #path: string;
  readonly #mostStalledS: number;
  readonly #server = createHandleServer((handle) => this.#accept(handle)).unref();
  #child: Child | null = null;
  /** By id, those that have not ended. */
  readonly #jobs = new Map<number, Started>();
  /** By id, those that are being started. */
  readonly #starting = new Map<number, Started>();
  #timer: NodeJS.Timeout | undefined;
  #lastId = 0;
  /** For how many seconds none of those that are being started has begun to run. */
  #stalledS = 0;
  #look: NodeJS.Timeout | undefined;
  #closed = false;

  /**
   * @param directory made for the host alone; the streams of children come to a socket in it
   * @param stalledS after so many seconds in which no job begins it is replaced
   */
  constructor(directory: string, stalledS = STALLED_S) {
    this.#path = join(directory, 'streams.sock');
    this.#mostStalledS = stalledS;
  }

  /** Its process id; null while it does not run. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** Has it start jobs from now on. Never rejects: without it they are started all the same. */
  async open(): Promise<void> {
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
      rmSync(this.#path, { force: true });
      // The job that the stream belongs to fails by its deadline.
      this.#server.on('error', (error) => log('warn', 'a child has lost a stream', { error: reason(error) }));
      this.#server.listen(this.#path, BACKLOG);
      await once(this.#server, 'listening');
      await this.#run();
      startJobsBy((words, isUrgent) => this.#start(words, isUrgent));
    } catch (error) {
      log('warn', 'the host starts its children itself, which delays requests', { error: reason(error) });
    }
  }

  /** Ends it, and every job that it has started. */
  close(): void {
    this.#closed = true;
    startJobsBy(null);
    clearTimeout(this.#timer);
    this.#server.close();
    this.#endJobs();
    this.#child?.end();
  }

  async #run(): Promise<void> {
    const words = [process.execPath, PROGRAM, this.#path];
    const child = await startChild(words, { title: 'spawner' });
    if (this.#closed) return child.end();
    createInterface({ input: child.stdout }).on('line', (line) => this.#hear(JSON.parse(line) as JobReply));
    child.stderr.on('data', (text: Buffer) =>
      log('warn', 'the spawner said', { text: text.toString('utf8') }),
    );
    child.keepHost(false);
    this.#child = child;
    void child.exited.then((end) => this.#ended(end));
  }

  #ended(end: ChildEnd): void {
    this.#child = null;
    this.#endJobs();
    for (const { pid, connected, exited } of this.#jobs.values()) {
      const ended = Object.assign(new Error('the process that starts children ended'), { code: 'EAGAIN' });
      for (const { reject } of [pid, connected]) reject(ended);
      exited.resolve({ code: null, killedBy: 'SIGKILL' });
    }
    this.#jobs.clear();
    if (this.#closed) return;
    log('warn', 'the process that starts children ended; it is started again', { ...end });
    this.#runSoon();
  }

  /** Ends the process group of every job: nobody would hear of its end, and its number may soon be another's. */
  #endJobs(): void {
    for (const { runs } of this.#jobs.values()) if (runs !== null) endOfGroup(runs, () => false)();
  }

  #runSoon(): void {
    this.#timer = setTimeout(() => this.#run().catch(() => this.#runSoon()), RESTART_MS).unref();
  }

  /**
   * Starts a job, or answers null when there is no spawner that could.
   * @throws {Error} why it cannot start; with code `EAGAIN` when too many wait already
   */
  async #start(words: JobWords, isUrgent: boolean): Promise<Job | null> {
    const child = this.#child;
    if (child === null || (isUrgent && this.#starting.size >= BEFORE_URGENT)) return null;
    if (this.#starting.size >= WAITING_LIMIT) {
      const message = `${WAITING_LIMIT} others wait to be started already; try again in a few seconds`;
      throw Object.assign(new Error(message), { code: 'EAGAIN' });
    }
    const id = ++this.#lastId;
    const job: Started = {
      descriptors: words.streams,
      streams: new Map(),
      runs: null,
      pid: Promise.withResolvers(),
      connected: Promise.withResolvers(),
      exited: Promise.withResolvers(),
    };
    // It may be rejected while nobody waits for it.
    job.connected.promise.catch(() => {});
    this.#jobs.set(id, job);
    this.#watch(id, job);
    let pid: number | null = null;
    try {
      child.stdin.write(`${JSON.stringify({ id, ...words } satisfies JobRequest)}\n`);
      pid = await job.pid.promise;
      if (pid === null) return null;
      await connected(job);
      return asJob(pid, job);
    } catch (error) {
      if (job.runs !== null) endOfGroup(job.runs, () => false)();
      pid = null;
      throw error;
    } finally {
      this.#unwatch(id);
      if (pid === null) {
        this.#jobs.delete(id);
        for (const stream of job.streams.values()) stream.destroy();
      }
    }
  }

  /** Looks each second whether jobs begin to run. Time in which this process itself stood still does not count. */
  #watch(id: number, job: Started): void {
    this.#starting.set(id, job);
    if (this.#starting.size > 1) return;
    this.#stalledS = 0;
    this.#look = setInterval(() => {
      if (++this.#stalledS >= this.#mostStalledS) this.#child?.end();
    }, 1_000).unref();
  }

  #unwatch(id: number): void {
    this.#stalledS = 0;
    this.#starting.delete(id);
    if (this.#starting.size === 0) clearInterval(this.#look);
  }

  #hear(reply: JobReply): void {
    const job = this.#jobs.get(reply.id);
    if (job === undefined) return;
    if ('pid' in reply) {
      job.runs = reply.pid;
      job.pid.resolve(reply.pid);
    } else if ('unstarted' in reply) {
      job.pid.resolve(null);
    } else if ('failure' in reply) {
      const { message, code } = reply.failure;
      job.pid.reject(Object.assign(new Error(message), { code }));
    } else {
      this.#jobs.delete(reply.id);
      job.runs = null;
      const { code, killedBy } = reply;
      // Whoever waited for its start gets to its streams first.
      setImmediate(() => job.exited.resolve({ code, killedBy }));
    }
  }

  /** Looks whose a stream is. */
  #accept(handle: SocketHandle): void {
    const stream = socketOf(handle, {});
    // A child may end before it has read everything.
    stream.on('error', () => {});
    const look = () => {
      const label = stream.read(LABEL_BYTES) as Buffer | null;
      if (label === null) return;
      stream.off('readable', look);
      // The stream cannot come to its end before whoever asked for it has it.
      stream.unshift(label);
      const [id, descriptor] = label.toString('latin1').split(' ').map(Number);
      const job = label.length === LABEL_BYTES ? this.#starting.get(id!) : undefined;
      if (!job?.descriptors.includes(descriptor!) || job.streams.has(descriptor!)) {
        stream.destroy();
        return;
      }
      job.streams.set(descriptor!, stream);
      if (job.streams.size === job.descriptors.length) job.connected.resolve();
    };
    stream.on('readable', look);
  }
}

/**
 * Resolves when all streams of a job that runs lead here. Time in which this process itself stood still does not count.
 * @throws {Error} with code `EMFILE` when one is lost
 */
async function connected({ connected }: Started): Promise<void> {
  let waitedS = 0;
  const look = setInterval(() => {
    if (++waitedS < STREAMS_S) return;
    const lost = new Error('too many files are open, and a stream of it was lost');
    connected.reject(Object.assign(lost, { code: 'EMFILE' }));
  }, 1_000);
  await connected.promise.finally(() => clearInterval(look));
}

/** The child as whoever asked for it sees it. */
function asJob(pid: number, { streams, exited }: Started): Job {
  let hasEnded = false;
  for (const stream of streams.values()) stream.read(LABEL_BYTES);
  // Nothing comes back from there, and what was written the child can still read.
  const input = streams.get(0);
  input?.once('finish', () => input.destroy());
  const streamsClosed = [...streams.values()].map(
    (stream) => new Promise((resolve) => void stream.once('close', resolve)),
  );
  const closed = exited.promise.then(async (end) => {
    hasEnded = true;
    // What nobody reads must not keep it open.
    for (const [descriptor, stream] of streams)
      if (descriptor === 0) stream.destroy();
      else stream.resume();
    await Promise.all(streamsClosed);
    return end;
  });
  const [stdin, stdout, stderr, channel] = [0, 1, 2, 3].map((n) => streams.get(n)!);
  return {
    pid,
    stdin: stdin!,
    stdout: stdout!,
    stderr: stderr!,
    channel: channel!,
    exited: exited.promise,
    closed,
    hasEnded: () => hasEnded,
    end: endOfGroup(pid, () => hasEnded),
    keepHost: keeper([...streams.values()]),
  };
}
