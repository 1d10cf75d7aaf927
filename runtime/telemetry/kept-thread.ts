// Starts the telemetry thread, restarts it when it ends or hangs, and ends it.
import type { Worker } from 'node:worker_threads';
import { logRarely } from '../log.ts';
import { startThread } from '../threads/thread.ts';
import type { FromThread, ThreadOptions, ToThread } from './protocol.ts';

/** Limit of the thread's JavaScript heap, in MiB. */
const MEMORY_MB = 256;
const CLOSE_DEADLINE_MS = 2_000;
const RESTART_MIN_MS = 500;
const RESTART_MAX_MS = 30_000;
/** The restart delay is reset when the thread ran for longer than this, in ms. */
const SETTLED_MS = 60_000;

export interface RestartedThreadEvents {
  /** Called when the thread was started. Messages to the thread are queued until it listens. */
  onStart: () => void;
  onMessage: (message: FromThread) => void;
  /** Called when the thread has ended or hangs. @returns the number of lost items by kind, for the log */
  onLost: () => Record<string, number>;
}

export class RestartedThread {
  readonly #options: ThreadOptions;
  readonly #events: RestartedThreadEvents;
  #thread: Worker | null = null;
  #startedAt = 0;
  #restartMs = RESTART_MIN_MS;
  #restart: NodeJS.Timeout | null = null;
  #isClosing = false;
  #onClosed: (() => void) | null = null;
  restarts = 0;

  constructor(options: ThreadOptions, events: RestartedThreadEvents) {
    this.#options = options;
    this.#events = events;
  }

  get isThere(): boolean {
    return this.#thread !== null;
  }

  start(): void {
    if (this.#thread !== null || this.#isClosing) return;
    this.#startedAt = performance.now();
    const thread = startThread(new URL('./thread.ts', import.meta.url), {
      workerData: this.#options,
      resourceLimits: { maxOldGenerationSizeMb: MEMORY_MB },
    });
    thread.unref();
    this.#thread = thread;
    thread.on('message', (message: FromThread) => {
      if (message.type === 'closed') this.#onClosed?.();
      else this.#events.onMessage(message);
    });
    thread.on('error', (error: Error) => this.#lost(thread, error.message));
    thread.on('exit', () => this.#lost(thread, 'it ended'));
    this.#events.onStart();
  }

  /** Sends a message to the running thread; without one, the message is lost. */
  send(message: ToThread, transfer: ArrayBuffer[] = []): void {
    this.#thread?.postMessage(message, transfer);
  }

  /** Ends a hung thread, and starts another after the restart delay. */
  giveUp(): void {
    if (this.#thread !== null) this.#lost(this.#thread, 'it hangs');
  }

  /** Lets the thread write everything, and ends it, after 2 s at the latest. It is not restarted. */
  async close(): Promise<void> {
    if (this.#restart !== null) clearTimeout(this.#restart);
    this.#isClosing = true;
    const thread = this.#thread;
    if (thread === null) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#onClosed = resolve;
    const deadline = setTimeout(resolve, CLOSE_DEADLINE_MS);
    this.send({ type: 'close' });
    await promise;
    clearTimeout(deadline);
    this.#thread = null;
    await thread.terminate();
  }

  #lost(thread: Worker, error: string): void {
    if (this.#thread !== thread) return;
    this.#thread = null;
    void thread.terminate();
    this.#onClosed?.();
    const lost = this.#events.onLost();
    if (this.#isClosing) return;
    if (performance.now() - this.#startedAt > SETTLED_MS) this.#restartMs = RESTART_MIN_MS;
    const retry = { error, ...lost, retry_ms: this.#restartMs };
    logRarely('error', 'the thread of telemetry ended; it is started again', retry);
    this.restarts++;
    this.#restart = setTimeout(() => this.start(), this.#restartMs).unref();
    this.#restartMs = Math.min(2 * this.#restartMs, RESTART_MAX_MS);
  }
}
