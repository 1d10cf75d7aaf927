// Stores snapshots in a directory of this machine.
import { constants } from 'node:fs';
import { mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { syncFile } from '../../../bundler/sync.ts';
import { MissingObject, type Store, type Stored, UNFINISHED } from '../../bucket/store.ts';
import { readFreeMegabytes } from '../../disk/disk.ts';

/** Does not block on a FIFO, because the operator may put other files into the directory. */
const READ = constants.O_RDONLY | constants.O_NONBLOCK;

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
    const [path, beside] = [join(this.#directory, name), join(this.#directory, UNFINISHED, basename(name))];
    for (const each of [path, beside]) await mkdir(dirname(each), { recursive: true, mode: 0o700 });
    if (this.#floorMb !== null) await this.#requireFree(bytes.length / 2 ** 20 + this.#floorMb);
    const file = await open(beside, 'w', 0o600);
    try {
      await file.writeFile(bytes);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(beside, path);
    await syncFile(dirname(path));
  }

  async #requireFree(megabytes: number): Promise<void> {
    const freeMb = await readFreeMegabytes(this.#directory);
    if (freeMb < megabytes)
      throw new Error(
        `the disk of ${this.#directory} has ${freeMb} MiB free, and ${this.#floorMb} MiB must stay free (RUNNER_DISK_FLOOR_MB): free disk space, or set RUNNER_SNAPSHOT_URL to a place on another disk`,
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
