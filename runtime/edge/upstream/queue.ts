// A linked list in the order of arrival, from which any item can be removed. A `Set` works too, but it replaces its table
// when the table is full of deleted entries. Each old table refers to the next. Once one table is in V8's old generation,
// all later tables stay in memory until the next full collection. They slow down each collection of the young generation.

/** An item, which may be in one queue at a time. Only the queue writes these fields. */
export interface Queued<T> {
  /** The queue that contains it. */
  queue: object | null;
  /** The item before; null for the first, and outside a queue. */
  before: T | null;
  /** The item after; null for the last, and outside a queue. */
  after: T | null;
}

export class Queue<T extends Queued<T>> implements Iterable<T> {
  #first: T | null = null;
  #last: T | null = null;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The oldest item. */
  get first(): T | null {
    return this.#first;
  }

  /** Iterates from the oldest item. The current one may be deleted meanwhile. */
  *[Symbol.iterator](): Iterator<T> {
    for (let item = this.#first; item !== null; ) {
      const { after } = item;
      yield item;
      item = after;
    }
  }

  /** Adds an item that is in no queue. */
  add(item: T): void {
    item.queue = this;
    item.before = this.#last;
    if (this.#last === null) this.#first = item;
    else this.#last.after = item;
    this.#last = item;
    this.#size++;
  }

  /** Removes an item. Returns whether it was in this queue. */
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
