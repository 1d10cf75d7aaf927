// The thread in which Miniflare runs the handlers. It takes half a second of a processor to load, and 20 MB of objects that
// V8 would collect while nobody is answered if they were the gateway's.
import { mkdirSync, rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Worker } from 'node:worker_threads';
import { log, reason } from '../log.ts';
import { startThread } from '../threads/thread.ts';
import type { HandlersOptions } from './miniflare.ts';
import type { FromMiniflare, ToMiniflare } from './miniflare-thread.ts';

/** How long Miniflare may take to end its workerd, in ms. */
const END_DEADLINE_MS = 5_000;

export interface HandlersThreadOptions {
  /** What Miniflare is to run as workerd. */
  program: string;
  /** Where it keeps its temporary files; what a killed host left there is removed. */
  temporary: string;
  /** Called when its workerd had ended, and was started again. */
  onRestart: () => void;
  /** Called when the thread has ended, for whatever reason. */
  onEnd: () => void;
}

export class HandlersThread {
  readonly #thread: Worker;
  readonly #asked = new Map<number, PromiseWithResolvers<void>>();
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
      else this.#answered(message.id, message.error);
    });
    let why = 'its thread ended';
    this.#thread.on('error', (error: unknown) => {
      why = `its thread ended: ${reason(error)}`;
    });
    this.#thread.on('exit', () => {
      this.#ended = true;
      if (!this.#isEnding) log('error', 'what runs the control plane has ended', { error: why });
      for (const id of [...this.#asked.keys()]) this.#answered(id, why);
      onEnd();
    });
  }

  get ended(): boolean {
    return this.#ended;
  }

  /**
   * Runs handlers, in place of those that run.
   * @param unlessRunning whether to leave those that run when Miniflare has done what it is at: it starts a workerd that
   * ended again by itself
   * @throws {Error} when they cannot be started, or the thread ends
   */
  run(handlers: HandlersOptions, unlessRunning = false): Promise<void> {
    return this.#ask(handlers, unlessRunning);
  }

  /** Ends the handlers' process, and the thread. */
  async end(): Promise<void> {
    this.#isEnding = true;
    const ended = this.#ask(null).catch(() => {});
    await Promise.race([ended, sleep(END_DEADLINE_MS, undefined, { ref: false })]);
    await this.#thread.terminate();
  }

  #ask(handlers: HandlersOptions | null, unlessRunning = false): Promise<void> {
    if (this.#ended) return Promise.reject(new Error('its thread has ended'));
    const id = ++this.#lastId;
    const asked = Promise.withResolvers<void>();
    this.#asked.set(id, asked);
    this.#thread.postMessage({ id, handlers, unlessRunning } satisfies ToMiniflare);
    return asked.promise;
  }

  #answered(id: number, error: string | null): void {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    if (error === null) asked?.resolve();
    else asked?.reject(new Error(error));
  }
}
