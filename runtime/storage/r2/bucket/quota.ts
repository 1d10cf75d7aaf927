// Checks an app's quota and the free disk space.
import { statfs } from 'node:fs/promises';
import { tooLarge, unavailable } from '../errors.ts';

const MB = 2 ** 20;
/** How long a reading of the disk is cached, in ms. */
const FRESH_MS = 1_000;

export interface QuotaOptions {
  /** Limit of one app's objects, in MiB; 0 for none. */
  maxMb: number;
  /** Disk space that must stay free, in MiB; 0 for none. */
  floorMb: number;
}

/** The quota of one app. */
export class Quota {
  readonly #options: QuotaOptions;
  readonly #directory: string;
  /** Bytes being written. */
  #coming = 0;
  #free: Promise<number> | null = null;
  #freeAt = Number.NEGATIVE_INFINITY;

  /** @param directory on the disk to check */
  constructor(directory: string, options: QuotaOptions) {
    this.#directory = directory;
    this.#options = options;
  }

  /**
   * Runs `write` if `size` more bytes fit.
   * @param kept returns the app's stored bytes
   * @throws {R2Error} when they do not fit
   */
  async during<T>(size: number, kept: () => Promise<number>, write: () => Promise<T>): Promise<T> {
    const { maxMb, floorMb } = this.#options;
    const keptBytes = maxMb > 0 ? await kept() : 0;
    if (maxMb > 0 && keptBytes + this.#coming + size > maxMb * MB)
      throw tooLarge(`The objects of this app may have ${maxMb} MiB in all (RUNNER_APP_MAX_MB).`);
    this.#coming += size;
    try {
      if (floorMb > 0 && (await this.#freeBytes()) - this.#coming < floorMb * MB)
        throw unavailable(`The disk of this machine is almost full (RUNNER_DISK_FLOOR_MB is ${floorMb}).`);
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
