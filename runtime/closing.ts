// An orderly shutdown of the host: every part is closed, even when another part fails to close.
import { log, reason } from './log.ts';

export class Shutdown {
  #failed = false;
  #first: unknown;

  /** Runs a step of the shutdown. Never rejects: logs a failure, so that the next steps still run. */
  async step(what: string, work: () => unknown): Promise<void> {
    try {
      await work();
    } catch (error) {
      log('error', 'a part did not shut down cleanly', { part: what, error: reason(error) });
      if (!this.#failed) this.#first = error;
      this.#failed = true;
    }
  }

  /** @throws the error of the first failed step, if one failed */
  throwFirst(): void {
    if (this.#failed) throw this.#first;
  }
}

/** Waits for `work`. @throws {Error} after `limitMs` */
export async function within(limitMs: number, work: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done within ${limitMs / 1000} s`)), limitMs);
  });
  try {
    await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}
