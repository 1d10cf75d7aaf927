// How many bytes the calls of all apps may hold in the memory of a service, and those of one account.

/** What one call holds. */
export interface Held {
  /** Takes bytes of the budget. @returns whether there were so many left; once there were not, none are taken any more */
  take(bytes: number): boolean;
  /** @throws {Error} the refusal of the budget, when there were not enough */
  check(): void;
  giveAll(): void;
}

/** Part of the budget that the calls of one account may have. */
const SHARE_OF_OWNER = 1 / 2;

export class Budget {
  readonly #bytes: number;
  readonly #refusal: (limit: string) => Error;
  #all = 0;
  readonly #ofOwners = new Map<string, number>();

  /**
   * @param bytes in all
   * @param refusal what a call is refused with that needs more than is left of the limit
   */
  constructor(bytes: number, refusal: (limit: string) => Error) {
    this.#bytes = bytes;
    this.#refusal = refusal;
  }

  /** Begins to count what a call of an account holds. */
  begin(owner: string): Held {
    let taken = 0;
    let limit: string | null = null;
    return {
      take: (bytes) => {
        limit ??= this.#limit(owner, bytes);
        if (limit !== null) return false;
        taken += bytes;
        this.#add(owner, bytes);
        return true;
      },
      check: () => {
        if (limit !== null) throw this.#refusal(limit);
      },
      giveAll: () => {
        this.#add(owner, -taken);
        taken = 0;
      },
    };
  }

  /** Returns the limit that so many bytes more would pass; null while there is none. */
  #limit(owner: string, more: number): string | null {
    const share = this.#bytes * SHARE_OF_OWNER;
    if ((this.#ofOwners.get(owner) ?? 0) + more > share) return `${share / 2 ** 20} MiB of one account`;
    if (this.#all + more > this.#bytes) return `${this.#bytes / 2 ** 20} MiB of all accounts`;
    return null;
  }

  #add(owner: string, bytes: number): void {
    this.#all += bytes;
    const left = (this.#ofOwners.get(owner) ?? 0) + bytes;
    if (left === 0) this.#ofOwners.delete(owner);
    else this.#ofOwners.set(owner, left);
  }
}
