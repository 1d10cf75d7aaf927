// A token bucket: refills at a rate per second, until it is full.

export class Allowance {
  readonly #perSecond: number;
  readonly #most: number;
  #left: number;
  #filledAt = performance.now();

  /** @param savedS the seconds that an empty bucket takes to fill up. The bucket starts full */
  constructor(perSecond: number, savedS: number) {
    this.#perSecond = perSecond;
    this.#most = perSecond * savedS;
    this.#left = this.#most;
  }

  /** Returns the current level. Negative after overuse. */
  left(): number {
    const now = performance.now();
    const seconds = (now - this.#filledAt) / 1000;
    this.#filledAt = now;
    this.#left = Math.min(this.#left + seconds * this.#perSecond, this.#most);
    return this.#left;
  }

  /** Whether the bucket is full. */
  get isFull(): boolean {
    return this.left() === this.#most;
  }

  use(amount: number): void {
    this.#left -= amount;
  }
}
