// Requests that wait for their backend. They are bounded for each site as well as in all, and whoever has most gives way
// when there is no room: what waits for one app never keeps another app's requests from waiting.

/** How waiting ended. `full`: there was no room for it, or none any more. `closed`: the gateway goes. */
export type RequestQueueOutcome = 'ready' | 'late' | 'gone' | 'full' | 'closed';

/** A request, as far as its waiting goes. */
export interface QueuedRequest {
  /** Whoever it waits for; `site` is whose share of the room it takes. */
  backend: { readonly site: string } | null;
  /** When it was first held, on the clock of `performance.now()`. */
  heldSince: number | null;
  /** How long it has been held, in ms; set when it is held no longer. */
  heldMs: number;
  /** Bytes in memory while nobody takes the request: its head, and what came behind it. */
  readonly keptBytes: number;
  /** Called when `keptBytes` has changed. */
  onKept: (() => void) | null;
  /** Called once when its client leaves. */
  onGone: (() => void) | null;
}

/** How much may wait. */
export interface RequestQueueLimits {
  /** Requests. */
  requests: number;
  /** Bytes of heads, and of bodies that have come. */
  bytes: number;
}

const MIB = 1024 * 1024;
const SITE_MAX: RequestQueueLimits = { requests: 1_000, bytes: 32 * MIB };
const ALL_MAX: RequestQueueLimits = { requests: 4_000, bytes: 128 * MIB };
/** Requests that go on in one turn of the event loop. Each may cost a connection to the process. */
const RELEASED_AT_ONCE = 64;

/** What waits for one site. */
interface Site {
  /** The one that has waited longest comes first. */
  requests: Set<Held>;
  bytes: number;
}

interface Held {
  site: Site;
  bytes: number;
  settle: (outcome: RequestQueueOutcome) => void;
}

/** The held requests, bounded in number, bytes and time. Their bodies wait too: nobody reads them. */
export class RequestQueues {
  readonly #timeoutMs: number;
  readonly #siteMax: RequestQueueLimits;
  readonly #allMax: RequestQueueLimits;
  /** By what they wait for: one reaction per promise, so that a client that left leaves nothing behind. */
  readonly #waiting = new Map<Promise<void>, Set<Held>>();
  readonly #sites = new Map<string, Site>();
  #requests = 0;
  #bytes = 0;
  #closed = false;

  /**
   * @param timeoutMs how long one request may be held in all
   * @param siteMax for each site @param allMax for all of them
   */
  constructor(timeoutMs: number, siteMax = SITE_MAX, allMax = ALL_MAX) {
    this.#timeoutMs = timeoutMs;
    this.#siteMax = siteMax;
    this.#allMax = allMax;
  }

  /** Waits for `ready`, which never rejects; for the rest of the request's time; or for its client to leave. */
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
        if (!waiters.delete(held)) return;
        clearTimeout(timer);
        request.onGone = null;
        request.onKept = null;
        request.heldMs = performance.now() - since;
        this.#remove(held, name);
        resolve(outcome);
      };
      const held: Held = { site, bytes: 0, settle };
      const timer = setTimeout(settle, left, 'late');
      request.onGone = () => settle('gone');
      request.onKept = () => this.#count(held, request.keptBytes);
      waiters.add(held);
      site.requests.add(held);
      this.#requests++;
      this.#count(held, request.keptBytes);
    });
  }

  /** Ends all waiting; none begins any more. */
  close(): void {
    this.#closed = true;
    for (const { requests } of [...this.#sites.values()]) {
      for (const { settle } of [...requests]) settle('closed');
    }
  }

  #remove(held: Held, name: string): void {
    const { site, bytes } = held;
    site.requests.delete(held);
    site.bytes -= bytes;
    this.#bytes -= bytes;
    this.#requests--;
    if (site.requests.size === 0) this.#sites.delete(name);
  }

  /** Whether one more may wait for `site`, for which another site may have to give one up. */
  #makeRoomFor(site: Site): boolean {
    if (site.requests.size >= this.#siteMax.requests) return false;
    if (this.#requests < this.#allMax.requests) return true;
    const most = largest(this.#sites.values(), (other) => other.requests.size);
    if (most.requests.size <= site.requests.size + 1) return false;
    const [longest] = most.requests;
    longest!.settle('full');
    return true;
  }

  /** Takes note of the bytes that a request keeps; may end its wait, or that of others. */
  #count(held: Held, bytes: number): void {
    const more = bytes - held.bytes;
    held.bytes = bytes;
    held.site.bytes += more;
    this.#bytes += more;
    if (held.site.bytes > this.#siteMax.bytes) held.settle('full');
    while (this.#bytes > this.#allMax.bytes) {
      const most = largest(this.#sites.values(), (site) => site.bytes);
      largest(most.requests, (request) => request.bytes).settle('full');
    }
  }

  #waitersOf(ready: Promise<void>): Set<Held> {
    const known = this.#waiting.get(ready);
    if (known !== undefined) return known;
    const waiters = new Set<Held>();
    this.#waiting.set(ready, waiters);
    ready.then(() => {
      // Not in the microtask: a backend that says `hold` with a settled promise must not stop the event loop.
      setImmediate(() => {
        this.#waiting.delete(ready);
        release([...waiters], 0);
      });
    });
    return waiters;
  }
}

/** Lets requests go on, not all at once: others are served in between. */
function release(waiters: Held[], from: number): void {
  const to = from + RELEASED_AT_ONCE;
  for (const { settle } of waiters.slice(from, to)) settle('ready');
  if (to < waiters.length) setImmediate(release, waiters, to);
}

/** The first of those whose size is largest. Of at least one. */
function largest<T>(all: Iterable<T>, size: (one: T) => number): T {
  return [...all].reduce((most, one) => (size(one) > size(most) ? one : most));
}
