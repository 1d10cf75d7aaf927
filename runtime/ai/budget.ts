// How much the calls of all apps may hold in memory.
import { noCapacity } from './errors.ts';

export class Budget {
  #left: number;

  /** @param bytes in all */
  constructor(bytes: number) {
    this.#left = bytes;
  }

  /**
   * Takes bytes of it.
   * @throws {AiError} when there are not so many left
   */
  take(bytes: number): void {
    if (bytes > this.#left) throw noCapacity('Too much is asked of the AI server at a time; try again.');
    this.#left -= bytes;
  }

  give(bytes: number): void {
    this.#left += bytes;
  }
}
