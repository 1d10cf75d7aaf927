// A small process starts apps' processes and short-lived children for the host. If the host forked itself, the kernel would
// copy its page tables, in 1.5 ms for each 100 MB that it uses. The host would answer no request until the child has called
// exec.
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { log, reason } from '../log.ts';
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
/** A child takes about 3 ms to start. A spawner with waiting jobs that starts none for this many seconds is replaced. */
const STALLED_S = 20;
/** Delay before an ended spawner is restarted, in ms. The host starts its children itself meanwhile. */
const RESTART_MS = 1_000;
/** Maximum jobs in the start queue, about three seconds of work. One more is refused. */
const WAITING_LIMIT = 1_000;
/** An urgent job with this many jobs ahead of it is started by this process itself, which is faster. */
const BEFORE_URGENT = 4;
/**
 * Timeout for the streams of a running child, in seconds. The spawner connects them before it starts the child, so they
 * should be in the listen backlog already. A stream that is missing after this time counts as lost.
 */
const STREAMS_S = 5;
/** Length of the label at the start of each stream: the job's id and the descriptor, padded with blanks. */
const LABEL_BYTES = 24;
/** Listen backlog: the streams of all waiting jobs. */
const BACKLOG = 4 * WAITING_LIMIT;

/** A line to the spawner. */
interface JobRequest extends JobWords {
  id: number;
}

/**
 * A line from the spawner: a child runs, was not started because its streams could not be connected, could not start, or has
 * ended.
 */
type JobReply =
  | { id: number; pid: number }
  | { id: number; unstarted: true }
  | { id: number; failure: { message: string; code?: string } }
  | ({ id: number } & ChildEnd);

/** A child that is starting or running. */
interface Started {
  /** The descriptors that become streams. */
  descriptors: number[];
  /** Streams connected so far, by descriptor. */
  streams: Map<number, Socket>;
  /** The process id, while it runs. */
  runs: number | null;
  /** Resolves with the process id; null when the spawner could not connect the streams. Rejects when the start fails. */
  pid: PromiseWithResolvers<number | null>;
  connected: PromiseWithResolvers<void>;
  exited: PromiseWithResolvers<ChildEnd>;
}

/** Starts jobs in the spawner process. While it does not run, this process starts them itself. */
export class Spawner {
  readonly #path: string;
  readonly #mostStalledS: number;
  readonly #server = createServer((stream) => this.#accept(stream)).unref();
  #child: Child | null = null;
  /** Jobs that have not ended, by id. */
  readonly #jobs = new Map<number, Started>();
  /** Jobs that are starting, by id. */
  readonly #starting = new Map<number, Started>();
  #timer: NodeJS.Timeout | undefined;
  #lastId = 0;
  /** Seconds in which no starting job has begun to run. */
  #stalledS = 0;
  #look: NodeJS.Timeout | undefined;
  #closed = false;

  /**
   * @param directory for the host alone; holds the socket for the streams of children
   * @param stalledS seconds without a started job after which the spawner is replaced
   */
  constructor(directory: string, stalledS = STALLED_S) {
    this.#path = join(directory, 'streams.sock');
    this.#mostStalledS = stalledS;
  }

  /** Its process id; null while it does not run. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /** Starts the spawner. Never rejects: without it, this process starts the jobs. */
  async open(): Promise<void> {
    try {
      mkdirSync(dirname(this.#path), { recursive: true, mode: 0o700 });
      rmSync(this.#path, { force: true });
      // The job of the lost stream fails after `STREAMS_S`.
      this.#server.on('error', (error) =>
        log('warn', 'the input or output of a child process could not be connected', {
          error: reason(error),
        }),
      );
      this.#server.listen(this.#path, BACKLOG);
      await once(this.#server, 'listening');
      await this.#run();
      startJobsBy((words, isUrgent) => this.#start(words, isUrgent));
    } catch (error) {
      log('warn', 'the spawner did not start: the host starts its children itself, which delays requests', {
        error: reason(error),
      });
    }
  }

  /** Ends the spawner and every job that it has started. */
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
      log('warn', 'the process that starts children printed errors', { text: text.toString('utf8') }),
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

  /** Ends the process group of every job: their ends would go unreported, and their ids may soon be reused. */
  #endJobs(): void {
    for (const { runs } of this.#jobs.values()) if (runs !== null) endOfGroup(runs, () => false)();
  }

  #runSoon(): void {
    this.#timer = setTimeout(() => this.#run().catch(() => this.#runSoon()), RESTART_MS).unref();
  }

  /**
   * Starts a job. Returns null when this process must start the job itself: no spawner runs, an urgent job would wait, or
   * the spawner could not connect the streams.
   * @throws {Error} why it cannot start; code `EAGAIN` when the queue is full
   */
  async #start(words: JobWords, isUrgent: boolean): Promise<Job | null> {
    const child = this.#child;
    if (child === null || (isUrgent && this.#starting.size >= BEFORE_URGENT)) return null;
    if (this.#starting.size >= WAITING_LIMIT) {
      const message = `${WAITING_LIMIT} other processes wait to be started already; try again in a few seconds`;
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
    // It may reject before anyone awaits it.
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

  /** Checks each second whether jobs begin to run. Time in which this process itself was blocked does not count. */
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
      // The caller that awaits the start must get the streams first.
      setImmediate(() => job.exited.resolve({ code, killedBy }));
    }
  }

  /** Reads a stream's label and assigns the stream to its job. */
  #accept(stream: Socket): void {
    // Ignores the error of a child that ends before it has read all its input.
    stream.on('error', () => {});
    const look = () => {
      const label = stream.read(LABEL_BYTES) as Buffer | null;
      if (label === null) return;
      stream.off('readable', look);
      // Puts the label back, because unread bytes keep the stream from ending before its caller has it.
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
 * Resolves when all streams of a running job are connected. Time in which this process itself was blocked does not count.
 * @throws {Error} with code `EMFILE` when a stream is lost, `EAGAIN` when the spawner ends
 */
async function connected({ connected }: Started): Promise<void> {
  let waitedS = 0;
  const look = setInterval(() => {
    if (++waitedS < STREAMS_S) return;
    const lost = new Error(
      'too many files are open, so its input or output could not be connected; raise the limit of open files (ulimit -n)',
    );
    connected.reject(Object.assign(lost, { code: 'EMFILE' }));
  }, 1_000);
  await connected.promise.finally(() => clearInterval(look));
}

/** Returns the `Job` of a running child, whose streams are connected. */
function asJob(pid: number, { streams, exited }: Started): Job {
  let hasEnded = false;
  for (const stream of streams.values()) stream.read(LABEL_BYTES);
  // Closes stdin after the last write: the child sends nothing back, and can still read what was written.
  const input = streams.get(0);
  input?.once('finish', () => input.destroy());
  const streamsClosed = [...streams.values()].map(
    (stream) => new Promise((resolve) => void stream.once('close', resolve)),
  );
  const closed = exited.promise.then(async (end) => {
    hasEnded = true;
    // Unread output would keep a stream open, and `closed` would never resolve.
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
