// Shares syncs of a file or directory among many callers.
import type { FileHandle } from 'node:fs/promises';

/** Syncs a file to disk. Callers that arrive during a sync share the next one. */
export class Sync {
  readonly #open: () => Promise<FileHandle>;
  #handle: Promise<FileHandle> | null = null;
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  constructor(open: () => Promise<FileHandle>) {
    this.#open = open;
  }

  /** Resolves when all writes before this call would survive a power loss. */
  flush(): Promise<void> {
    if (this.#running === null) return this.#start();
    // The running sync may have begun before the caller's write.
    this.#next ??= this.#running
      .catch(() => {})
      .then(() => {
        this.#next = null;
        return this.#start();
      });
    return this.#next;
  }

  async close(): Promise<void> {
    await this.#next?.catch(() => {});
    await this.#running?.catch(() => {});
    await (await this.#handle)?.close();
  }

  #start(): Promise<void> {
    const running = this.#sync().finally(() => {
      if (this.#running === running) this.#running = null;
    });
    this.#running = running;
    return running;
  }

  async #sync(): Promise<void> {
    this.#handle ??= this.#open();
    await (await this.#handle).datasync();
  }
}
