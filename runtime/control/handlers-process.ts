// The workerd process of the handlers: starts it, and restarts it when it ends by itself.
import { setTimeout as sleep } from 'node:timers/promises';
import { listening } from '../fleets/process/start-cell.ts';
import { log, reason } from '../log.ts';
import { Backoff } from '../processes/backoff.ts';
import { type Child, startChild } from '../processes/child.ts';
import { LineReader, messageOf } from '../processes/lines.ts';
import { SerialQueue } from '../queues/serial-queue.ts';
import { aborted } from '../threads/aborted.ts';
import { controlWords, SERVING, writeControlConfig } from './config.ts';
import type { HandlersOptions } from './miniflare.ts';

/** Start timeout, in ms: a process that does not listen by then is killed. */
const START_DEADLINE_MS = 60_000;
/** Longest restart delay, in ms: the API is down meanwhile. */
const LONGEST_DELAY_MS = 5_000;
/** Longest line of its output in the log, in characters. */
const LINE_LENGTH = 10_000;

export interface HandlersProcessOptions {
  /** Directory of its config and sockets. Only the host may have access. */
  directory: string;
  /** Path of the workerd program. */
  workerd: string;
  /** Called when it ended by itself and was restarted. */
  onRestart: () => void;
}

export class HandlersProcess {
  readonly #options: HandlersProcessOptions;
  /** Starts and ends run one after another. */
  readonly #queue = new SerialQueue();
  readonly #backoff = new Backoff();
  readonly #closing = new AbortController();
  #handlers: HandlersOptions | null = null;
  #child: Child | null = null;

  constructor(options: HandlersProcessOptions) {
    this.#options = options;
  }

  /** Its process id; null while there is none. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /**
   * Runs handlers in place of those that run.
   * @throws {Error} why they do not start: then none run; the signal's reason after `end`
   */
  run(handlers: HandlersOptions): Promise<void> {
    return this.#queue.run(async () => {
      this.#handlers = handlers;
      await this.#replace(handlers);
    });
  }

  /** Kills the process, also one that hangs. It is restarted. */
  kill(): void {
    this.#child?.end();
  }

  /** Ends the process for good. */
  async end(): Promise<void> {
    this.#closing.abort(new Error('the host is stopping'));
    this.kill();
    await this.#queue.run(() => this.#stop());
  }

  async #stop(): Promise<void> {
    const child = this.#child;
    this.#child = null;
    child?.end();
    await child?.exited;
  }

  async #replace(handlers: HandlersOptions): Promise<void> {
    const { signal } = this.#closing;
    const isReused = await writeControlConfig(handlers, signal);
    await this.#stop();
    try {
      await this.#start();
    } catch (error) {
      if (!isReused) throw error;
      log('warn', "the control plane's config is made again", { error: reason(error) });
      await writeControlConfig(handlers, signal, true);
      await this.#start();
    }
  }

  async #start(): Promise<void> {
    const { directory, workerd } = this.#options;
    const { signal } = this.#closing;
    signal.throwIfAborted();
    const child = await startChild(controlWords(workerd, directory), {
      title: 'workerd',
      environment: {},
      stdin: 'ignore',
      channel: true,
    });
    this.#child = child;
    const printed = logOutput(child);
    const timeout = setTimeout(() => child.end(), START_DEADLINE_MS);
    try {
      await Promise.race([
        listening(child.channel, new Set([SERVING]), null),
        ended(child, printed),
        aborted(signal),
      ]);
    } catch (error) {
      await this.#stop();
      throw error;
    } finally {
      clearTimeout(timeout);
    }
    const startedAt = performance.now();
    void child.exited.then(() => {
      if (this.#child !== child || signal.aborted) return;
      this.#child = null;
      void this.#restart(this.#backoff.next(performance.now() - startedAt).delayMs);
    });
  }

  /** Tries until it runs, or `run` or `end` is called. Never rejects. */
  async #restart(delayMs: number): Promise<void> {
    const { signal } = this.#closing;
    const handlers = this.#handlers!;
    await sleep(Math.min(delayMs, LONGEST_DELAY_MS), undefined, { signal, ref: false }).catch(() => {});
    await this.#queue.run(async () => {
      if (signal.aborted || this.#child !== null || this.#handlers !== handlers) return;
      try {
        await this.#replace(handlers);
        log('warn', 'the process of the control plane ended and was started again');
        this.#options.onRestart();
      } catch (error) {
        if (signal.aborted) return;
        log('error', 'the control plane does not start', { error: reason(error) });
        void this.#restart(this.#backoff.failed().delayMs);
      }
    });
  }
}

/** What a process printed: its last error, or else its first line. */
interface Printed {
  reason: string;
}

/** Rejects when a process ends, with what it printed. */
async function ended({ closed }: Child, printed: Printed): Promise<never> {
  const { code, killedBy } = await closed;
  throw new Error(`workerd ended: ${printed.reason || (killedBy ?? `exit code ${code}`)}`);
}

/** Writes what a process prints into the host's log. */
function logOutput({ stdout, stderr }: Child): Printed {
  const printed = { reason: '' };
  for (const stream of [stdout, stderr]) {
    const lines = new LineReader((line) => {
      const text = messageOf(line).slice(0, LINE_LENGTH);
      const level = levelOf(line);
      if (level === 'error' || printed.reason === '') printed.reason = text;
      log(level, `control: ${text}`);
    });
    stream.on('data', (chunk: Buffer) => lines.write(chunk));
  }
  return printed;
}

function levelOf(line: string): 'error' | 'info' {
  try {
    return JSON.parse(line).level === 'error' ? 'error' : 'info';
  } catch {
    return 'info';
  }
}
