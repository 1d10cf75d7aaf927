// Whether there is room for what an app wants to keep.
import { statfs } from 'node:fs/promises';
import { tooLarge, unavailable } from '../errors.ts';

const MB = 2 ** 20;
/** How long what was read of the disk counts, in ms. */
const FRESH_MS = 1_000;

export interface RoomOptions {
  /** MiB that the objects of one app may have; 0 is no limit. */
  maxMb: number;
  /** MiB that stay free on the disk. */
  floorMb: number;
}

/** The room of one app. */
export class Room {
  readonly #options: RoomOptions;
  readonly #directory: string;
  /** Bytes that are being written. */
  #coming = 0;
  #free: Promise<number> | null = null;
  #freeAt = Number.NEGATIVE_INFINITY;

  /** @param directory on the disk that is meant */
  constructor(directory: string, options: RoomOptions) {
    this.#directory = directory;
    this.#options = options;
  }

  /**
   * Runs `write` if there is room for `size` bytes more.
   * @param kept bytes that the app keeps already
   * @throws {R2Error} when there is none
   */
  async during<T>(size: number, kept: () => number, write: () => Promise<T>): Promise<T> {
    const { maxMb, floorMb } = this.#options;
    if (maxMb > 0 && kept() + this.#coming + size > maxMb * MB)
      throw tooLarge(`The objects of this app may have ${maxMb} MiB in all (RUNNER_APP_MAX_MB).`);
    this.#coming += size;
    try {
      if ((await this.#freeBytes()) - this.#coming < floorMb * MB)
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
