// How much the calls of all apps may hold in memory.
import { noCapacity } from './errors.ts';

/** What one call holds. */
export interface Held {
  /** Takes bytes of the budget. @returns whether there were so many left; once there were not, none are taken any more */
  take(bytes: number): boolean;
  /** @throws {AiError} when there were not enough */
  check(): void;
  giveAll(): void;
}

export class Budget {
  #left: number;

  /** @param bytes in all */
  constructor(bytes: number) {
    this.#left = bytes;
  }

  begin(): Held {
    let taken = 0;
    let isShort = false;
    return {
      take: (bytes) => {
        isShort ||= bytes > this.#left;
        if (isShort) return false;
        taken += bytes;
        this.#left -= bytes;
        return true;
      },
      check: () => {
        if (isShort) throw noCapacity('Too much is asked of the AI server at a time; try again.');
      },
      giveAll: () => {
        this.#left += taken;
        taken = 0;
      },
    };
  }
}
