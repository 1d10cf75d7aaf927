// Requests that wait for their backend. Each site, and all sites together, have a limit of requests and of bytes. Above a
// total limit, the site with the most requests or bytes loses a request. So one app's queue never blocks another's.

/** How a wait ended. `late`: timeout. `gone`: the client left. `full`: rejected or evicted. `closed`: the gateway stops. */
export type RequestQueueOutcome = 'ready' | 'late' | 'gone' | 'full' | 'closed';

/** A request, as the queue sees it. */
export interface QueuedRequest {
  /** The backend it waits for; `site` is the name whose quota it counts against. */
  backend: { readonly site: string } | null;
  /** When it was first queued, on the clock of `performance.now()`. */
  heldSince: number | null;
  /** Total time in the queue, in ms; set when it leaves the queue. */
  heldMs: number;
  /** Bytes in memory while it is queued: its head, and the unread bytes after it. */
  readonly keptBytes: number;
  /** Called when `keptBytes` has changed. */
  onKept: (() => void) | null;
  /** Called once when its client leaves. */
  onGone: (() => void) | null;
}

export interface RequestQueueLimits {
  requests: number;
  /** Bytes of heads, and of bodies that have arrived. */
  bytes: number;
}

const MIB = 1024 * 1024;
const SITE_MAX: RequestQueueLimits = { requests: 1_000, bytes: 32 * MIB };
const ALL_MAX: RequestQueueLimits = { requests: 4_000, bytes: 128 * MIB };
/** Requests released in one turn of the event loop. Each may need a new connection to the process. */
const RELEASED_AT_ONCE = 64;

interface Site {
  /** In the order of arrival. */
  requests: Set<QueueEntry>;
  bytes: number;
}

interface QueueEntry {
  site: Site;
  bytes: number;
  settle: (outcome: RequestQueueOutcome) => void;
}

/** The queued requests, bounded in number, bytes and time. Their bodies are not read, which causes backpressure. */
export class RequestQueues {
  readonly #timeoutMs: number;
  readonly #siteMax: RequestQueueLimits;
  readonly #allMax: RequestQueueLimits;
  /** Queued requests by the promise that they wait for. Each promise has one callback, so ended waits use no memory. */
  readonly #waiting = new Map<Promise<void>, Set<QueueEntry>>();
  readonly #sites = new Map<string, Site>();
  #requests = 0;
  #bytes = 0;
  #closed = false;

  /**
   * @param timeoutMs longest total time of one request in the queue, in ms
   * @param siteMax bounds for each site @param allMax for all sites together
   */
  constructor(timeoutMs: number, siteMax = SITE_MAX, allMax = ALL_MAX) {
    this.#timeoutMs = timeoutMs;
    this.#siteMax = siteMax;
    this.#allMax = allMax;
  }

  /** Queues a request until `ready` settles (it never rejects), or its wait ends otherwise. See `RequestQueueOutcome`. */
  wait(request: QueuedRequest, ready: Promise<void>): Promise<RequestQueueOutcome> {
    if (this.#closed) return Promise.resolve('closed');
    const name = request.backend!.site;
    const site = this.#sites.get(name) ?? { requests: new Set(), bytes: 0 };
    if (!this.#makeRoomFor(site)) return Promise.resolve('full');
    this.#sites.set(name, site);
    request.heldSince ??= performance.now();
    const since = request.heldSince;
    const left = since + this.#timeoutMs - performance.now();
    const waiters = this.#waitersOf(ready);
    return new Promise((resolve) => {
      const settle = (outcome: RequestQueueOutcome): void => {
        if (!waiters.delete(entry)) return;
        clearTimeout(timer);
        request.onGone = null;
        request.onKept = null;
        request.heldMs = performance.now() - since;
        this.#remove(entry, name);
        resolve(outcome);
      };
      const entry: QueueEntry = { site, bytes: 0, settle };
      const timer = setTimeout(settle, left, 'late');
      request.onGone = () => settle('gone');
      request.onKept = () => this.#count(entry, request.keptBytes);
      waiters.add(entry);
      site.requests.add(entry);
      this.#requests++;
      this.#count(entry, request.keptBytes);
    });
  }

  /** Ends all waits with `closed`, and later ones at once. */
  close(): void {
    this.#closed = true;
    for (const { requests } of [...this.#sites.values()]) {
      for (const { settle } of [...requests]) settle('closed');
    }
  }

  #remove(entry: QueueEntry, name: string): void {
    const { site, bytes } = entry;
    site.requests.delete(entry);
    site.bytes -= bytes;
    this.#bytes -= bytes;
    this.#requests--;
    if (site.requests.size === 0) this.#sites.delete(name);
  }

  /** Whether one more request may wait for `site`. May evict one of another site. */
  #makeRoomFor(site: Site): boolean {
    if (site.requests.size >= this.#siteMax.requests) return false;
    if (this.#requests < this.#allMax.requests) return true;
    const most = largest(this.#sites.values(), (other) => other.requests.size);
    if (most.requests.size <= site.requests.size + 1) return false;
    const [longest] = most.requests;
    longest!.settle('full');
    return true;
  }

  /** Updates the bytes that a request uses. May evict it, or others. */
  #count(entry: QueueEntry, bytes: number): void {
    const more = bytes - entry.bytes;
    entry.bytes = bytes;
    entry.site.bytes += more;
    this.#bytes += more;
    if (entry.site.bytes > this.#siteMax.bytes) entry.settle('full');
    while (this.#bytes > this.#allMax.bytes) {
      const most = largest(this.#sites.values(), (site) => site.bytes);
      largest(most.requests, (request) => request.bytes).settle('full');
    }
  }

  #waitersOf(ready: Promise<void>): Set<QueueEntry> {
    const known = this.#waiting.get(ready);
    if (known !== undefined) return known;
    const waiters = new Set<QueueEntry>();
    this.#waiting.set(ready, waiters);
    ready.then(() => {
      // Not in the microtask: a backend that returns `hold` with a settled promise must not block the event loop.
      setImmediate(() => {
        this.#waiting.delete(ready);
        release([...waiters], 0);
      });
    });
    return waiters;
  }
}

/** Releases requests in batches, one in each turn of the event loop, so that other requests are served in between. */
function release(waiters: QueueEntry[], from: number): void {
  const to = from + RELEASED_AT_ONCE;
  for (const { settle } of waiters.slice(from, to)) settle('ready');
  if (to < waiters.length) setImmediate(release, waiters, to);
}

/** Returns the item with the largest size, the first of equal ones. `all` must not be empty. */
function largest<T>(all: Iterable<T>, size: (one: T) => number): T {
  return [...all].reduce((most, one) => (size(one) > size(most) ? one : most));
}
