// So many bytes a second, of which what is not used can be saved up for some seconds.

export class Allowance {
  readonly #perSecond: number;
  readonly #most: number;
  #bytes: number;
  #filledAt = performance.now();

  /** @param savedS how many seconds' worth can be saved up; so many there are at the beginning, too */
  constructor(perSecond: number, savedS: number) {
    this.#perSecond = perSecond;
    this.#most = perSecond * savedS;
    this.#bytes = this.#most;
  }

  /** What there is now, in bytes. Below zero when more was used than there was. */
  left(): number {
    const now = performance.now();
    const seconds = (now - this.#filledAt) / 1000;
    this.#filledAt = now;
    this.#bytes = Math.min(this.#bytes + seconds * this.#perSecond, this.#most);
    return this.#bytes;
  }

  use(bytes: number): void {
    this.#bytes -= bytes;
  }
}
