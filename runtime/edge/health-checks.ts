// Measures how often load balancers ask for `/ready`. A host that is about to stop goes on serving until the load balancers
// have noticed that it is not ready.

/** Times of `GET /ready` by one client. */
interface Asked {
  /** Time of the latest request, on the clock of `performance.now()`. */
  at: number;
  /** The latest intervals between two requests, in ms. */
  intervals: number[];
}

/** Number of failed checks after which most load balancers stop sending requests to a host. */
const CHECKS = 3;
/** Longer intervals between checks count as this, in ms. */
const INTERVAL_MAX_MS = 10_000;
/** Maximum number of remembered clients. */
const CLIENTS_MAX = 64;
/**
 * Number of remembered intervals of each client. A load balancer may check several times in a row, once for each of its
 * routes to the host.
 */
const INTERVALS = 8;

export class HealthChecks {
  readonly #clients = new Map<string, Asked>();

  /** Records that a client has asked for `/ready`. */
  recordCheck(client: string, now = performance.now()): void {
    const before = this.#clients.get(client);
    const intervals = before === undefined ? [] : [...before.intervals, now - before.at].slice(-INTERVALS);
    // The map is in the order of the last check, so its first client is the one that checked least recently.
    this.#clients.delete(client);
    if (this.#clients.size >= CLIENTS_MAX) this.#clients.delete(this.#clients.keys().next().value!);
    this.#clients.set(client, { at: now, intervals });
  }

  /**
   * Estimates how long it takes until every load balancer has noticed that the host is not ready, in ms. Returns 0 if no
   * client has asked repeatedly.
   */
  noticedMs(now = performance.now()): number {
    const recent = [...this.#clients.values()].filter(({ at }) => now - at <= CHECKS * INTERVAL_MAX_MS);
    const longest = Math.max(0, ...recent.flatMap(({ intervals }) => intervals));
    return CHECKS * Math.min(INTERVAL_MAX_MS, longest);
  }
}
