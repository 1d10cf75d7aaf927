// The files that hold the bytes of an app's objects. A file has a random name and never changes: it counts from when the
// index names it, and one that the index does not name is litter.
import { createHash, randomBytes } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { Gate } from './gate.ts';
import { Sync } from './sync.ts';

/** The digests that there may be, by the name that answers use. */
export const ALGORITHMS = ['md5', 'sha1', 'sha256', 'sha384', 'sha512'] as const;
export type Algorithm = (typeof ALGORITHMS)[number];
export type Digests = Partial<Record<Algorithm, Buffer>>;

/** Bytes that are gathered before they are written. */
const WRITE_BYTES = 512 * 1024;
/** Bytes after which a file is synced while more come, so that its end does not wait for all of them. */
const SYNC_BYTES = 8 * 1024 * 1024;
/** Files of an app that are synced at a time. */
const SYNCS = 4;
/** Files looked at before others get their turn. */
const SWEEP_AT_ONCE = 100;

export class Blobs {
  readonly #directory: string;
  readonly #sync: Sync;
  /** Turns to wait for the disk: the process has few threads that can, and other apps need some of them. */
  readonly #turns = new Gate(SYNCS);

  constructor(directory: string) {
    this.#directory = directory;
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
      const digests = await copy(body, size, { handle, sync }, algorithms);
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

  /** Never rejects: what stays is litter, and the next sweep's. */
  async remove(files: string[]): Promise<void> {
    for (const file of files) await unlink(join(this.#directory, file)).catch(() => {});
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

/** Hashes what comes while what came before is written. */
async function copy(
  body: AsyncIterable<Buffer>,
  size: number,
  { handle, sync }: { handle: FileHandle; sync: () => Promise<void> },
  algorithms: Algorithm[],
): Promise<Digests> {
  const hashes = algorithms.map((algorithm) => ({ algorithm, hash: createHash(algorithm) }));
  let gathered: Buffer[] = [];
  let gatheredBytes = 0;
  let bytes = 0;
  let unsynced = 0;
  let writing: Promise<unknown> = Promise.resolve();
  let syncing: Promise<unknown> | null = null;
  const write = async () => {
    await writing;
    if (unsynced >= SYNC_BYTES && syncing === null) {
      unsynced = 0;
      // A failure shows at the last sync too.
      syncing = sync().then(
        () => (syncing = null),
        () => {},
      );
    }
    unsynced += gatheredBytes;
    writing = handle.writev(gathered);
    // Looked at by the next one who waits for it.
    writing.catch(() => {});
    gathered = [];
    gatheredBytes = 0;
  };
  try {
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > size) throw new Error('the body is longer than its content-length');
      for (const { hash } of hashes) hash.update(chunk);
      gathered.push(chunk);
      gatheredBytes += chunk.length;
      if (gatheredBytes >= WRITE_BYTES) await write();
    }
    if (bytes < size) throw new Error('the body ended before its time');
    if (gatheredBytes > 0) await write();
  } finally {
    await writing.finally(() => syncing);
  }
  return Object.fromEntries(hashes.map(({ algorithm, hash }) => [algorithm, hash.digest()]));
}
