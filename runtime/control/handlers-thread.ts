// The worker thread in which Miniflare runs the handlers. Loading takes half a second of CPU time and makes 20 MB of objects. In
// the gateway's own thread, V8 would block all requests to collect them.
import { mkdirSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { log, reason } from '../log.ts';
import { startThread } from '../threads/thread.ts';
import type { HandlersOptions } from './miniflare.ts';
import type { FromMiniflare, ToMiniflare } from './miniflare-thread.ts';

/** How long Miniflare may take to stop its workerd, in ms. */
const END_DEADLINE_MS = 5_000;

export interface HandlersThreadOptions {
  /** Path of the program that Miniflare runs as workerd. */
  program: string;
  /** Directory for temporary files; those of a killed host are removed. */
  temporary: string;
  /** Called when its workerd has exited and was restarted. */
  onRestart: () => void;
  /** Called when the thread has ended, for any reason. */
  onEnd: () => void;
}

export class HandlersThread {
  readonly #thread: Worker;
  readonly #pending = new Map<number, PromiseWithResolvers<void>>();
  #lastId = 0;
  #ended = false;
  #isEnding = false;

  constructor({ program, temporary, onRestart, onEnd }: HandlersThreadOptions) {
    rmSync(temporary, { recursive: true, force: true });
    mkdirSync(temporary, { mode: 0o700 });
    this.#thread = startThread(new URL('./miniflare-thread.ts', import.meta.url), {
      env: { PATH: process.env.PATH ?? '', TMPDIR: temporary, MINIFLARE_WORKERD_PATH: program },
    });
    this.#thread.on('message', (message: FromMiniflare) => {
      if (message === 'restarted') onRestart();
      else this.#settle(message.id, message.error);
    });
    let why = 'its thread ended';
    this.#thread.on('error', (error: unknown) => {
      why = `its thread ended: ${reason(error)}`;
    });
    this.#thread.on('exit', () => {
      this.#ended = true;
      if (!this.#isEnding) log('error', 'what runs the control plane has ended', { error: why });
      for (const id of [...this.#pending.keys()]) this.#settle(id, why);
      onEnd();
    });
  }

  get ended(): boolean {
    return this.#ended;
  }

  /**
   * Runs handlers. Replaces running ones, unless `unlessRunning`.
   * @param unlessRunning waits for Miniflare, which restarts an exited workerd itself, and leaves handlers that run then
   * @throws {Error} when they cannot be started, or the thread ends
   */
  run(handlers: HandlersOptions, unlessRunning = false): Promise<void> {
    return this.#ask(handlers, unlessRunning);
  }

  /** Stops the handlers' process and the thread. */
  async end(): Promise<void> {
    this.#isEnding = true;
    const ended = this.#ask(null).catch(() => {});
    await Promise.race([ended, sleep(END_DEADLINE_MS, undefined, { ref: false })]);
    await this.#thread.terminate();
  }

  #ask(handlers: HandlersOptions | null, unlessRunning = false): Promise<void> {
    if (this.#ended) return Promise.reject(new Error('its thread has ended'));
    const id = ++this.#lastId;
    const pending = Promise.withResolvers<void>();
    this.#pending.set(id, pending);
    this.#thread.postMessage({ id, handlers, unlessRunning } satisfies ToMiniflare);
    return pending.promise;
  }

  #settle(id: number, error: string | null): void {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (error === null) pending?.resolve();
    else pending?.reject(new Error(error));
  }
}
