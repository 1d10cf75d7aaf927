// Checks an app's quota and the free disk space.
import { statfs } from 'node:fs/promises';

const MB = 2 ** 20;
/** How long a reading of the disk is cached, in ms. */
const FRESH_MS = 1_000;

export interface QuotaOptions {
  /** Limit of what one app stores, in MiB; 0 for none. */
  maxMb: number;
  /** Disk space that must stay free, in MiB; 0 for none. */
  floorMb: number;
}

/** Functions that make the errors of a write that does not fit. */
export interface QuotaRefusals {
  /** @param maxMb the app's limit in MiB */
  tooMuch: (maxMb: number) => Error;
  /** @param floorMb the space in MiB that must stay free */
  diskFull: (floorMb: number) => Error;
}

/** The quota of one app. */
export class Quota {
  readonly #options: QuotaOptions;
  readonly #directory: string;
  readonly #refusals: QuotaRefusals;
  /** Bytes being written. */
  #coming = 0;
  #free: Promise<number> | null = null;
  #freeAt = Number.NEGATIVE_INFINITY;

  /** @param directory on the disk to check */
  constructor(directory: string, options: QuotaOptions, refusals: QuotaRefusals) {
    this.#directory = directory;
    this.#options = options;
    this.#refusals = refusals;
  }

  /**
   * Runs `write` if `size` more bytes fit.
   * @param kept returns the app's stored bytes
   * @throws {Error} a refusal when they do not fit
   */
  async during<T>(size: number, kept: () => Promise<number>, write: () => Promise<T>): Promise<T> {
    const { maxMb, floorMb } = this.#options;
    const keptBytes = maxMb > 0 ? await kept() : 0;
    if (maxMb > 0 && keptBytes + this.#coming + size > maxMb * MB) throw this.#refusals.tooMuch(maxMb);
    this.#coming += size;
    try {
      if (floorMb > 0 && (await this.#freeBytes()) - this.#coming < floorMb * MB)
        throw this.#refusals.diskFull(floorMb);
      return await write();
    } finally {
      this.#coming -= size;
    }
  }

  #freeBytes(): Promise<number> {
    const now = performance.now();
    if (this.#free === null || now - this.#freeAt > FRESH_MS) {
      this.#freeAt = now;
      this.#free = statfs(this.#directory).then(({ bavail, bsize }) => bavail * bsize);
    }
    return this.#free;
  }
}
