// What came one after another, and may leave in any order. A `Set` would do the same, but its table is replaced each time
// that it is full of what has left. Each old table leads to the next one: from the first that lived long enough to be taken for
// old, all of them, and what was in them, stay in memory until the next collection of all garbage, and every collection
// of young garbage before that takes longer for it.

/** What may be in one queue at a time. Only the queue changes these. */
export interface Queued<T> {
  /** The one that it is in. */
  queue: object | null;
  /** The one that came before; null for the first, and out of a queue. */
  before: T | null;
  /** The one that came after; null for the last, and out of a queue. */
  after: T | null;
}

export class Queue<T extends Queued<T>> implements Iterable<T> {
  #first: T | null = null;
  #last: T | null = null;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The one that came first of those that are in it. */
  get first(): T | null {
    return this.#first;
  }

  /** Each may be deleted when its turn comes. */
  *[Symbol.iterator](): Iterator<T> {
    for (let item = this.#first; item !== null; ) {
      const { after } = item;
      yield item;
      item = after;
    }
  }

  /** Adds one that is in no queue. */
  add(item: T): void {
    item.queue = this;
    item.before = this.#last;
    if (this.#last === null) this.#first = item;
    else this.#last.after = item;
    this.#last = item;
    this.#size++;
  }

  /** Returns whether it was in this queue. */
  delete(item: T): boolean {
    if (item.queue !== this) return false;
    const { before, after } = item;
    if (before === null) this.#first = after;
    else before.after = after;
    if (after === null) this.#last = before;
    else after.before = before;
    item.queue = null;
    item.before = null;
    item.after = null;
    this.#size--;
    return true;
  }
}
