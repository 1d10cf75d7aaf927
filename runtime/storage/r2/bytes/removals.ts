// Removes the files of an app's objects that nothing needs any more. While they are held they stay: whoever copies the index
// then finds all that it names.
import { unlink } from 'node:fs/promises';
import { join } from 'node:path';

export class Removals {
  readonly #directory: string;
  /** Names of files that go when the hold ends; null without one. */
  #held: Set<string> | null = null;

  /** @param directory the files lie in */
  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Never rejects: what stays is litter, and the next sweep's. */
  async remove(files: Iterable<string>): Promise<void> {
    for (const file of files) {
      if (this.#held === null) await unlink(join(this.#directory, file)).catch(() => {});
      else this.#held.add(file);
    }
  }

  /** Begins a hold, or ends it and removes what was kept for it. */
  async hold(isHeld: boolean): Promise<void> {
    if (isHeld) {
      this.#held ??= new Set();
      return;
    }
    const held = this.#held ?? [];
    this.#held = null;
    await this.remove(held);
  }
}
