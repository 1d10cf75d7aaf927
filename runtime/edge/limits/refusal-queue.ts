// Sends refusals of requests above a limit in batches, one batch in each turn of the event loop. Otherwise hundreds of
// refusals at the same moment would block all other requests.

/** Maximum refusals in one turn of the event loop: about 1 ms of work. */
const AT_ONCE = 16;

export class RefusalQueue {
  readonly #waiting: (() => void)[] = [];
  /** How many more refusals may be sent in this turn. */
  #left = AT_ONCE;
  #next: NodeJS.Immediate | null = null;

  /** Calls `refuse` now, or in a later turn in the order of arrival. */
  add(refuse: () => void): void {
    this.#next ??= setImmediate(this.#onTurn);
    if (this.#left === 0) {
      this.#waiting.push(refuse);
      return;
    }
    this.#left--;
    refuse();
  }

  readonly #onTurn = (): void => {
    this.#next = null;
    this.#left = AT_ONCE;
    for (const refuse of this.#waiting.splice(0, AT_ONCE)) this.add(refuse);
  };
}
