// A file that takes room which nobody needs while there is enough, so that there is some to give back when there is none.
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

  /** Gives the room back. @returns whether there was any */
  drop(): boolean {
    const existed = this.exists;
    rmSync(this.#path, { force: true });
    // What a host that was killed had begun to take.
    rmSync(`${this.#path}.new`, { force: true });
    return existed;
  }

  /** Takes the room, whole or not at all. @throws when there is not enough */
  async take(): Promise<void> {
    const beside = `${this.#path}.new`;
    try {
      const file = await open(beside, 'w', 0o600);
      try {
        // Random, because some file systems store zeros in no room at all.
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
