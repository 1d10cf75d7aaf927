// Refusals of requests that are over a limit: so many in one turn of the event loop, and the rest in the turns after it. Those
// of hundreds of connections that ask at the same moment would keep everybody else waiting.

/** Refusals in one turn: about a millisecond of work. */
const AT_ONCE = 16;

export class RefusalQueue {
  readonly #waiting: (() => void)[] = [];
  /** How many more may be sent in this turn. */
  #left = AT_ONCE;
  #next: NodeJS.Immediate | null = null;

  /** Has `refuse` called now, or soon and in its turn. */
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
