// Commits changes of an app's index, and syncs them to disk before the request is answered. Then removes dropped files,
// once no reader uses them.
import type { ObjectIndex } from '../../../../sqlite/storage/objects.ts';
import type { Blobs } from '../bytes/blobs.ts';
import type { Sync } from '../bytes/sync.ts';

/** Records files to remove: those of an object's version, or of uploads. */
export type Drop = (files: string[], version?: string) => void;

export class Changes {
  readonly #index: ObjectIndex;
  readonly #blobs: Blobs;
  readonly #sync: Sync;
  /** Number of current readers, by version of the object. */
  readonly #readers = new Map<string, number>();
  /** Files to remove once their version has no readers, by version of the object. */
  readonly #doomed = new Map<string, string[]>();

  constructor(index: ObjectIndex, blobs: Blobs, sync: Sync) {
    this.#index = index;
    this.#blobs = blobs;
    this.#sync = sync;
  }

  /** Commits a transaction that adds a file to the index. After a failure, removes the file if the index lacks it. */
  async keep<T>(file: string, work: (drop: Drop) => T): Promise<T> {
    try {
      return await this.commit(work);
    } catch (error) {
      if (!this.#index.hasFile(file)) await this.#blobs.remove([file]);
      throw error;
    }
  }

  /**
   * Runs a transaction and syncs it to disk. Dropped files are removed afterwards, in the background: after a power loss, an
   * earlier index might still need them.
   */
  async commit<T>(work: (drop: Drop) => T): Promise<T> {
    const dropped: { files: string[]; version: string | undefined }[] = [];
    const result = this.#index.transaction(() => work((files, version) => dropped.push({ files, version })));
    await this.#sync.flush();
    for (const { files, version } of dropped) {
      if (version !== undefined && this.#readers.has(version)) this.#doomed.set(version, files);
      else void this.#blobs.remove(files);
    }
    return result;
  }

  /** Protects the files of an object's version from removal. @returns a function that ends this */
  read(version: string): () => void {
    this.#readers.set(version, (this.#readers.get(version) ?? 0) + 1);
    return () => this.#release(version);
  }

  /** Syncs to disk what was written without its own transaction. */
  flush(): Promise<void> {
    return this.#sync.flush();
  }

  close(): Promise<void> {
    return this.#sync.close();
  }

  #release(version: string): void {
    const left = this.#readers.get(version)! - 1;
    if (left > 0) {
      this.#readers.set(version, left);
      return;
    }
    this.#readers.delete(version);
    const files = this.#doomed.get(version);
    if (files === undefined) return;
    this.#doomed.delete(version);
    void this.#blobs.remove(files);
  }
}
