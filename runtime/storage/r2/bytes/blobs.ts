// The files that hold the bytes of an app's objects. A file has a random name and never changes: it counts from when the
// index names it, and one that the index does not name is litter.
import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Gate } from '../gate.ts';
import type { Algorithm, Digests } from './algorithms.ts';
import { writeBody } from './incoming.ts';
import type { Removals } from './removals.ts';
import { Sync } from './sync.ts';

/** Files of an app that are synced at a time. */
const SYNCS = 4;
/** Files looked at before others get their turn. */
const SWEEP_AT_ONCE = 100;

export class Blobs {
  readonly #directory: string;
  readonly #sync: Sync;
  readonly #removals: Removals;
  /** Turns to wait for the disk: the process has few threads that can, and other apps need some of them. */
  readonly #turns = new Gate(SYNCS);

  constructor(directory: string, removals: Removals) {
    this.#directory = directory;
    this.#removals = removals;
    this.#sync = new Sync(() => open(directory, 'r'));
  }

  /** To be called before all else. */
  async prepare(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
  }

  /**
   * Writes a file. It survives a power cut when this resolves; nothing of it is left when this rejects.
   * @param body exactly `size` bytes
   * @throws {Error} when it has fewer, or more
   */
  async write(
    body: AsyncIterable<Buffer>,
    size: number,
    algorithms: Algorithm[],
  ): Promise<{ file: string; digests: Digests }> {
    const file = randomBytes(16).toString('hex');
    const path = join(this.#directory, file);
    const handle = await open(path, 'wx', 0o600);
    // Its name is brought onto the disk while its bytes come.
    const named = this.#sync.flush();
    named.catch(() => {});
    try {
      const sync = () => this.#turns.during(() => handle.datasync());
      const digests = await writeBody(body, size, { handle, sync }, algorithms);
      await Promise.all([sync(), named]);
      await handle.close();
      return { file, digests };
    } catch (error) {
      await handle.close().catch(() => {});
      await unlink(path);
      throw error;
    }
  }

  open(file: string): Promise<FileHandle> {
    return open(join(this.#directory, file), 'r');
  }

  /** All bytes of a file. */
  read(file: string): Promise<Buffer> {
    return readFile(join(this.#directory, file));
  }

  /** Never rejects: what stays is litter, and the next sweep's. */
  remove(files: string[]): Promise<void> {
    return this.#removals.remove(files);
  }

  /** The names of all files there are. */
  list(): Promise<string[]> {
    return readdir(this.#directory);
  }

  /** Removes those of `files` that nothing names. */
  async sweep(files: string[], isNamed: (file: string) => boolean): Promise<void> {
    for (let at = 0; at < files.length; at += SWEEP_AT_ONCE) {
      const litter = files.slice(at, at + SWEEP_AT_ONCE).filter((file) => !isNamed(file));
      await this.remove(litter);
      await new Promise(setImmediate);
    }
  }

  async close(): Promise<void> {
    await this.#sync.close();
  }
}
