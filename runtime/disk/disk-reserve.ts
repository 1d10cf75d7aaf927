// A disk reserve: a file that occupies space while there is enough, and is deleted to free space on a full disk.
import { randomBytes } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';

const CHUNK_BYTES = 1024 * 1024;

export class DiskReserve {
  readonly megabytes: number;
  readonly #path: string;

  /** @param path of the file */
  constructor(path: string, megabytes: number) {
    this.#path = path;
    this.megabytes = megabytes;
  }

  get exists(): boolean {
    return existsSync(this.#path);
  }

  /** Frees the space. @returns whether there was a reserve */
  drop(): boolean {
    const existed = this.exists;
    rmSync(this.#path, { force: true });
    // A host that was killed may have left a partial reserve.
    rmSync(`${this.#path}.new`, { force: true });
    return existed;
  }

  /** Allocates the space, whole or not at all. @throws when there is not enough */
  async take(): Promise<void> {
    const beside = `${this.#path}.new`;
    try {
      const file = await open(beside, 'w', 0o600);
      try {
        // Random, because some file systems store zeros without using space.
        const chunk = randomBytes(CHUNK_BYTES);
        for (let n = 0; n < this.megabytes; n++) await file.writeFile(chunk);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(beside, this.#path);
    } catch (error) {
      await rm(beside, { force: true });
      throw error;
    }
  }
}
