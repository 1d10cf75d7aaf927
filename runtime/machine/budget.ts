// How many bytes the calls of all apps may hold in the memory of a service.

/** What one call holds. */
export interface Held {
  /** Takes bytes of the budget. @returns whether there were so many left; once there were not, none are taken any more */
  take(bytes: number): boolean;
  /** @throws {Error} the refusal of the budget, when there were not enough */
  check(): void;
  giveAll(): void;
}

export class Budget {
  #left: number;
  readonly #refusal: () => Error;

  /**
   * @param bytes in all
   * @param refusal what a call is refused with that needs more than is left
   */
  constructor(bytes: number, refusal: () => Error) {
    this.#left = bytes;
    this.#refusal = refusal;
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
        if (isShort) throw this.#refusal();
      },
      giveAll: () => {
        this.#left += taken;
        taken = 0;
      },
    };
  }
}
