// Changes of a bucket's index: brought onto the disk before they are answered, and the files that they drop removed after
// that, when nobody reads them any more.
import type { ObjectIndex } from '../../../../sqlite/storage/objects.ts';
import type { Blobs } from '../bytes/blobs.ts';
import type { Sync } from '../bytes/sync.ts';

/** Takes note of files that nothing needs any more: those of an object's version, or of uploads. */
export type Drop = (files: string[], version?: string) => void;

export class Changes {
  readonly #index: ObjectIndex;
  readonly #blobs: Blobs;
  readonly #sync: Sync;
  /** How many read an object's version just now. */
  readonly #readers = new Map<string, number>();
  /** Files that go when the readers of their version have gone. */
  readonly #doomed = new Map<string, string[]>();

  constructor(index: ObjectIndex, blobs: Blobs, sync: Sync) {
    this.#index = index;
    this.#blobs = blobs;
    this.#sync = sync;
  }

  /** Makes a file count, by a transaction, and removes the file when that fails. */
  async keep<T>(file: string, work: (drop: Drop) => T): Promise<T> {
    try {
      return await this.commit(work);
    } catch (error) {
      if (!this.#index.hasFile(file)) await this.#blobs.remove([file]);
      throw error;
    }
  }

  /**
   * Runs a transaction and brings it onto the disk. What it drops goes after that, in the background: a power cut before
   * might bring back an index that needs it.
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

  /** Keeps the files of an object's version for a reader. @returns what the reader calls at its end */
  read(version: string): () => void {
    this.#readers.set(version, (this.#readers.get(version) ?? 0) + 1);
    return () => this.#release(version);
  }

  /** Brings what was written without a transaction of its own onto the disk. */
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
