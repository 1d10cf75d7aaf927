// An orderly end of the host: every part is ended, even when the ending of others fails.
import { log, reason } from './log.ts';

/** The steps of an end. */
export class Closing {
  #failed = false;
  #first: unknown;

  /** Takes a step. Never rejects: a step that fails is logged, and the next ones are taken all the same. */
  async step(what: string, work: () => unknown): Promise<void> {
    try {
      await work();
    } catch (error) {
      log('error', 'a part did not end as it should', { part: what, error: reason(error) });
      if (!this.#failed) this.#first = error;
      this.#failed = true;
    }
  }

  /** @throws what the first step that failed threw */
  throwFirst(): void {
    if (this.#failed) throw this.#first;
  }
}

/** Waits for `work`, but no longer than `limitMs`. @throws {Error} after that */
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
