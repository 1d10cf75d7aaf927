// Memory budget of a service: bytes that the calls of all apps, and of one account, may hold.

/** The memory of one call. */
export interface ReservedMemory {
  /** Takes bytes from the budget. @returns false when not enough are left, and in all later calls */
  take(bytes: number): boolean;
  /** @throws {Error} the refusal of the budget, after a failed `take` */
  check(): void;
  giveAll(): void;
}

/** Share of the budget for the calls of one account. */
const SHARE_OF_OWNER = 1 / 2;

export class Budget {
  readonly #bytes: number;
  readonly #refusal: (limit: string) => Error;
  #all = 0;
  readonly #ofOwners = new Map<string, number>();

  /**
   * @param bytes total budget
   * @param refusal makes the error of a call that exceeds a limit
   */
  constructor(bytes: number, refusal: (limit: string) => Error) {
    this.#bytes = bytes;
    this.#refusal = refusal;
  }

  /** Starts to count the memory of a call of an account. */
  begin(owner: string): ReservedMemory {
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

  /** Returns the text of the limit that `more` bytes would exceed; null if none. */
  #limit(owner: string, more: number): string | null {
    const share = this.#bytes * SHARE_OF_OWNER;
    if ((this.#ofOwners.get(owner) ?? 0) + more > share)
      return `${share / 2 ** 20} MiB of memory for one account`;
    if (this.#all + more > this.#bytes)
      return `${this.#bytes / 2 ** 20} MiB of memory for all accounts together`;
    return null;
  }

  #add(owner: string, bytes: number): void {
    this.#all += bytes;
    const left = (this.#ofOwners.get(owner) ?? 0) + bytes;
    if (left === 0) this.#ofOwners.delete(owner);
    else this.#ofOwners.set(owner, left);
  }
}
