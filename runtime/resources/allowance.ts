// So many bytes or other things a second, of which what is not used can be saved up for some seconds.

export class Allowance {
  readonly #perSecond: number;
  readonly #most: number;
  #left: number;
  #filledAt = performance.now();

  /** @param savedS how many seconds' worth can be saved up; so many there are at the beginning, too */
  constructor(perSecond: number, savedS: number) {
    this.#perSecond = perSecond;
    this.#most = perSecond * savedS;
    this.#left = this.#most;
  }

  /** What there is now. Below zero when more was used than there was. */
  left(): number {
    const now = performance.now();
    const seconds = (now - this.#filledAt) / 1000;
    this.#filledAt = now;
    this.#left = Math.min(this.#left + seconds * this.#perSecond, this.#most);
    return this.#left;
  }

  /** Whether there is as much as at the beginning. */
  get isFull(): boolean {
    return this.left() === this.#most;
  }

  use(amount: number): void {
    this.#left -= amount;
  }
}
