// Syncs a file or directory for many at once.
import type { FileHandle } from 'node:fs/promises';

/** Brings what was written to a file onto the disk. Those who ask while a sync runs share the next one. */
export class Sync {
  readonly #open: () => Promise<FileHandle>;
  #handle: Promise<FileHandle> | null = null;
  #running: Promise<void> | null = null;
  #next: Promise<void> | null = null;

  constructor(open: () => Promise<FileHandle>) {
    this.#open = open;
  }

  /** Resolves when all that was written before the call would survive a power cut. */
  flush(): Promise<void> {
    if (this.#running === null) return this.#start();
    // The one that runs may have begun before the last write.
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
