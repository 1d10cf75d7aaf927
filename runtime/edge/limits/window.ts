// A sliding window that counts the requests admitted in the last ten seconds.

export const WINDOW_MS = 10_000;
/** Maximum number of timestamps. A visitor's default limit admits no more in a window, so it never needs rounding. */
const TIMES_MAX = 300;
/** Timestamps are rounded up to multiples of this, in ms, when there are too many of them. It divides 2^32. */
const GRID_MS = 64;
/** Initial capacity, in timestamps: 64 bytes, which V8 stores inside the object. */
const TIMES_FIRST = 8;

/**
 * The admitted requests of one visitor or app, in at most 2,400 bytes. A request counts for exactly `WINDOW_MS`. With more
 * than 300 distinct timestamps, some requests count up to 64 ms longer; none counts shorter.
 * Timestamps are whole milliseconds modulo 2^32.
 */
export class Window {
  /** A ring buffer of pairs: a timestamp, and the number of requests admitted then. */
  #ring = new Uint32Array(2 * TIMES_FIRST);
  /** Index of the oldest pair. */
  #first = 0;
  /** Number of pairs. */
  #times = 0;
  #total = 0;

  /** Returns the number of requests in the window that ends at `now`. */
  count(now: number): number {
    while (this.#times > 0 && since(this.#ring[2 * this.#first]!, now) >= WINDOW_MS) {
      this.#total -= this.#ring[2 * this.#first + 1]!;
      this.#first = (this.#first + 1) % this.#capacity;
      this.#times--;
    }
    return this.#total;
  }

  /** Counts a request admitted at `now`, which must not be earlier than in the previous call. */
  add(now: number): void {
    this.#total++;
    if (this.#times > 0) {
      const last = this.#at(this.#times - 1);
      // A rounded timestamp may lie in the future.
      if (since(this.#ring[last]!, now) <= 0) {
        this.#ring[last + 1]!++;
        return;
      }
    }
    if (this.#times === this.#capacity) {
      if (this.#times < TIMES_MAX) this.#grow();
      else this.#round();
    }
    const next = this.#at(this.#times++);
    this.#ring[next] = now;
    this.#ring[next + 1] = 1;
  }

  /** Returns the ms until the window has fewer than `limit` requests. Call it after `count(now)` found the window full. */
  roomInMs(limit: number, now: number): number {
    let tooMany = this.#total - limit + 1;
    for (let i = 0; i < this.#times; i++) {
      const pair = this.#at(i);
      tooMany -= this.#ring[pair + 1]!;
      if (tooMany <= 0) return WINDOW_MS - since(this.#ring[pair]!, now);
    }
    return 0;
  }

  get #capacity(): number {
    return this.#ring.length / 2;
  }

  /** Returns the index of the pair number `i` in the ring. */
  #at(i: number): number {
    return 2 * ((this.#first + i) % this.#capacity);
  }

  #grow(): void {
    const ring = new Uint32Array(2 * Math.min(TIMES_MAX, this.#capacity * 4));
    const oldest = this.#ring.subarray(2 * this.#first);
    ring.set(oldest);
    ring.set(this.#ring.subarray(0, 2 * this.#first), oldest.length);
    this.#ring = ring;
    this.#first = 0;
  }

  /** Rounds all timestamps up and merges equal ones. */
  #round(): void {
    const times = this.#times;
    this.#times = 0;
    for (let i = 0; i < times; i++) {
      const pair = this.#at(i);
      const time = this.#ring[pair]!;
      const count = this.#ring[pair + 1]!;
      const rounded = ((time + GRID_MS - 1) & -GRID_MS) >>> 0;
      const last = this.#times > 0 ? this.#at(this.#times - 1) : -1;
      if (last !== -1 && this.#ring[last] === rounded) this.#ring[last + 1]! += count;
      else {
        const next = this.#at(this.#times++);
        this.#ring[next] = rounded;
        this.#ring[next + 1] = count;
      }
    }
  }
}

/** Returns the ms from `time` to `now`, both modulo 2^32. Correct while they are less than 24 days apart. */
export function since(time: number, now: number): number {
  return (now - time) | 0;
}
