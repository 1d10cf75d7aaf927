// Removes unused files of an app's objects. While held, removals are deferred, so that a copied index still finds its files.
import { unlink } from 'node:fs/promises';
import { join } from 'node:path';

export class Removals {
  readonly #directory: string;
  /** Files to remove when the hold ends; null without a hold. */
  #held: Set<string> | null = null;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** Removes files, or defers this during a hold. Never rejects: the next sweep removes the files that are left. */
  async remove(files: Iterable<string>): Promise<void> {
    for (const file of files) {
      if (this.#held === null) await unlink(join(this.#directory, file)).catch(() => {});
      else this.#held.add(file);
    }
  }

  /** Begins a hold, or ends it and removes the deferred files. */
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
