// Measures how often load balancers ask for `/ready`. A host that is about to stop goes on serving until they have noticed that
// it is not ready.

/** Times of `GET /ready` by one client. */
interface Asked {
  /** The last time, on the clock of `performance.now()`. */
  at: number;
  /** The last intervals, in ms. */
  intervals: number[];
}

/** A load balancer takes a host out after so many failed checks, as a rule. */
const CHECKS = 3;
/** Longest interval that counts, in ms. */
const INTERVAL_MAX_MS = 10_000;
/** Most clients that are remembered. */
const CLIENTS_MAX = 64;
/** A load balancer may ask several times in a row: it has as many checks as it has routes to the host. */
const INTERVALS = 8;

export class HealthChecks {
  readonly #clients = new Map<string, Asked>();

  /** Records that a client has asked for `/ready`. */
  recordCheck(client: string, now = performance.now()): void {
    const before = this.#clients.get(client);
    const intervals = before === undefined ? [] : [...before.intervals, now - before.at].slice(-INTERVALS);
    // The map keeps the order: the first has not asked for the longest time.
    this.#clients.delete(client);
    if (this.#clients.size >= CLIENTS_MAX) this.#clients.delete(this.#clients.keys().next().value!);
    this.#clients.set(client, { at: now, intervals });
  }

  /** Returns how long it takes until every load balancer has noticed that the host is not ready, in ms; 0 without any. */
  noticedMs(now = performance.now()): number {
    const recent = [...this.#clients.values()].filter(({ at }) => now - at <= CHECKS * INTERVAL_MAX_MS);
    const longest = Math.max(0, ...recent.flatMap(({ intervals }) => intervals));
    return CHECKS * Math.min(INTERVAL_MAX_MS, longest);
  }
}
