// The files of an app's objects. Each has a random name and never changes. A file that the index does not name is orphaned.
import { randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Gate } from '../gate.ts';
import type { Algorithm, Digests } from './algorithms.ts';
import { writeBody } from './incoming.ts';
import type { Removals } from './removals.ts';
import { Sync } from './sync.ts';

/** Maximum concurrent syncs of an app's files. */
const SYNCS = 4;
/** Number of files that a sweep checks before other events are handled. */
const SWEEP_AT_ONCE = 100;

export class Blobs {
  readonly #directory: string;
  readonly #sync: Sync;
  readonly #removals: Removals;
  /** Limits concurrent syncs: the process has few threads for them, and other apps need some. */
  readonly #turns = new Gate(SYNCS);

  constructor(directory: string, removals: Removals) {
    this.#directory = directory;
    this.#removals = removals;
    this.#sync = new Sync(() => open(directory, 'r'));
  }

  /** Creates the directory. Call it before anything else. */
  async prepare(): Promise<void> {
    await mkdir(this.#directory, { recursive: true, mode: 0o700 });
  }

  /**
   * Writes a file. When this resolves, the file survives a power loss; when it rejects, the file is gone.
   * @param body exactly `size` bytes
   * @throws {Error} when the body has fewer or more bytes
   */
  async write(
    body: AsyncIterable<Buffer>,
    size: number,
    algorithms: Algorithm[],
  ): Promise<{ file: string; digests: Digests }> {
    const file = randomBytes(16).toString('hex');
    const path = join(this.#directory, file);
    const handle = await open(path, 'wx', 0o600);
    // The file's directory entry is synced while its bytes arrive.
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

  read(file: string): Promise<Buffer> {
    return readFile(join(this.#directory, file));
  }

  /** Removes files, or defers this during a hold. Never rejects: the next sweep removes the files that are left. */
  remove(files: string[]): Promise<void> {
    return this.#removals.remove(files);
  }

  list(): Promise<string[]> {
    return readdir(this.#directory);
  }

  /** Removes those of `files` that the index does not name. */
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
