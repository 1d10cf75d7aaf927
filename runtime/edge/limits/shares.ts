// Limits the open requests of each share (a key, such as an app's id), so that one app leaves room for others.

/** Maximum number of open requests of one share, WebSockets included: a quarter of all connections. */
const SHARE_MAX = 2_048;

export class Shares {
  readonly #max: number;
  readonly #open = new Map<string, number>();

  constructor(max = SHARE_MAX) {
    this.#max = max;
  }

  /** Counts a request. At the limit, returns false and does not count it. */
  take(share: string): boolean {
    const open = this.#open.get(share) ?? 0;
    if (open >= this.#max) return false;
    this.#open.set(share, open + 1);
    return true;
  }

  /** Stops counting a request that has ended. */
  give(share: string): void {
    const open = this.#open.get(share)! - 1;
    if (open === 0) this.#open.delete(share);
    else this.#open.set(share, open);
  }
}
