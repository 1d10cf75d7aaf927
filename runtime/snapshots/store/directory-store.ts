// Stores snapshots in a directory of this machine.
import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { syncFile } from '../../../bundler/sync.ts';
import { MissingObject, type Store, type Stored, UNFINISHED } from '../../bucket/store.ts';
import { readFreeMegabytes } from '../../disk/disk.ts';

/** Does not block on a FIFO, because the operator may put other files into the directory. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK;
/** Maximum attempts to write an object whose unfinished file is removed by another process. */
const ATTEMPTS = 3;

export class DirectoryStore implements Store {
  readonly #directory: string;
  readonly #floorMb: number | null;

  /** @param floorMb MiB that writes must leave free on the disk; null: no limit */
  constructor(directory: string, floorMb: number | null = null) {
    this.#directory = directory;
    this.#floorMb = floorMb;
  }

  async list(folder: string): Promise<Stored[]> {
    const names = await readdir(join(this.#directory, folder)).catch(unlessMissing([]));
    const found = names.map((name) => `${folder}${name}`).sort();
    const stored = found.map(async (name) => {
      const stats = await stat(join(this.#directory, name)).catch(unlessMissing(null));
      return stats?.isFile() ? [{ name, bytes: stats.size, writtenAt: stats.mtimeMs, etag: '' }] : [];
    });
    return (await Promise.all(stored)).flat();
  }

  async read(name: string, part?: { offset: number; length: number }): Promise<Buffer<ArrayBuffer>> {
    const file = await open(join(this.#directory, name), READ).catch(unlessMissing(null));
    if (file === null) throw new MissingObject(name);
    try {
      if (!(await file.stat()).isFile()) throw new MissingObject(name);
      if (part === undefined) return await file.readFile();
      const { buffer, bytesRead } = await file.read(Buffer.alloc(part.length), 0, part.length, part.offset);
      return buffer.subarray(0, bytesRead);
    } finally {
      await file.close();
    }
  }

  async write(name: string, bytes: Buffer): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#write(name, bytes);
      } catch (error) {
        // A snapshot removes all unfinished files, also those of a verification in progress.
        if (attempt === ATTEMPTS || (error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      }
    }
  }

  async #write(name: string, bytes: Buffer): Promise<void> {
    const path = join(this.#directory, name);
    // Two processes may write the same name at once.
    const beside = join(this.#directory, UNFINISHED, `${basename(name)}-${randomUUID()}`);
    for (const each of [path, beside]) await mkdir(dirname(each), { recursive: true, mode: 0o700 });
    if (this.#floorMb !== null) await this.#requireFree(Math.ceil(bytes.length / 2 ** 20), this.#floorMb);
    try {
      const file = await open(beside, 'wx', 0o600);
      try {
        await file.writeFile(bytes);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(beside, path);
    } catch (error) {
      await rm(beside, { force: true }).catch(() => {});
      throw error;
    }
    await syncFile(dirname(path));
  }

  async #requireFree(megabytes: number, floorMb: number): Promise<void> {
    const freeMb = await readFreeMegabytes(this.#directory);
    if (freeMb < megabytes + floorMb)
      throw new Error(
        `the disk of ${this.#directory} has ${freeMb} MiB free. A write needs ${megabytes}, and ${floorMb} must stay free (RUNNER_DISK_FLOOR_MB): free disk space, or set RUNNER_SNAPSHOT_URL to a place on another disk`,
      );
  }

  async remove(name: string): Promise<void> {
    await rm(join(this.#directory, name), { force: true });
  }
}

function unlessMissing<T>(otherwise: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code !== 'ENOENT') throw error;
    return otherwise;
  };
}
