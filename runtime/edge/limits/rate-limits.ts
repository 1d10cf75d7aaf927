// Rate limits: how many requests a site accepts from one visitor, and from all visitors together.
import { visitorOf } from './networks.ts';
import { since, WINDOW_MS, Window } from './window.ts';

/** The limits of one site, in requests per minute; 0 means no limit. They may change from call to call. */
export interface SiteLimits {
  /** The site's name. Requests with the same name are counted together. */
  site: string;
  /** The key for counting, where it differs from the site's name. */
  countedAs?: string;
  /** For each visitor. */
  clientRpm: number;
  /** For all visitors together. */
  appRpm: number;
}

/** Maximum number of visitors of one site counted separately. All others share the site's overflow entry. */
const SITE_VISITORS_MAX = 16_384;
/** Maximum number of visitors of all sites counted separately. */
const VISITORS_MAX = 131_072;
/** Maximum idle entries evicted with each decision. A decision adds fewer, so the table shrinks without a long pause. */
const FORGOTTEN_AT_ONCE = 4;

interface Site {
  name: string;
  visitors: Map<number | string, Entry>;
  /** Counts the requests of visitors that came when the table was full; null when there are none. */
  overflow: Entry | null;
  whole: Entry | null;
}

/** The counter of one visitor, of a site's overflow, or of a whole site. */
class Entry {
  readonly window = new Window();
  readonly site: Site;
  readonly visitor: number | string | null;
  /** When a request was last admitted: whole ms modulo 2^32. */
  last = 0;
  older: Entry | null = null;
  newer: Entry | null = null;

  constructor(site: Site, visitor: number | string | null) {
    this.site = site;
    this.visitor = visitor;
  }
}

/** Decides by the requests admitted in the last ten seconds. Evicts entries that were idle for longer. */
export class Limiter {
  readonly #sites = new Map<string, Site>();
  readonly #siteVisitorsMax: number;
  readonly #visitorsMax: number;
  #visitors = 0;
  /** The ends of a linked list of entries, in the order of their last admission. */
  #oldest: Entry | null = null;
  #newest: Entry | null = null;

  /** @param capacity maximum number of visitors counted separately: of one site, and of all sites */
  constructor(capacity: { site?: number; all?: number } = {}) {
    this.#siteVisitorsMax = capacity.site ?? SITE_VISITORS_MAX;
    this.#visitorsMax = capacity.all ?? VISITORS_MAX;
  }

  /** Visitors counted separately now. */
  get visitors(): number {
    return this.#visitors;
  }

  /**
   * Admits a request, or returns when to retry. A limit of N per minute admits max(1, ⌊N/6⌋) in any ten seconds.
   * Refused requests do not count.
   * @param client an address; IPv6 counts by /64
   * @param at the time in ms, on a monotonic clock
   * @returns 0, or the seconds until the same request would be admitted if no other comes first
   */
  admit(limits: SiteLimits, client: string, at: number): number {
    const now = Math.floor(at) >>> 0;
    this.#forgetIdle(now, FORGOTTEN_AT_ONCE);
    const { clientRpm, appRpm } = limits;
    if (clientRpm === 0 && appRpm === 0) return 0;
    const site = this.#site(limits.countedAs ?? limits.site);
    const visitor = clientRpm === 0 ? null : visitorOf(client);
    const known = visitor === null ? null : this.#find(site, visitor);
    const wait = Math.max(
      roomInMs(known, clientRpm, now),
      roomInMs(appRpm === 0 ? null : site.whole, appRpm, now),
    );
    if (wait > 0) return Math.ceil(wait / 1000);
    if (visitor !== null) this.#count(known ?? this.#add(site, visitor), now);
    if (appRpm !== 0) {
      site.whole ??= new Entry(site, null);
      this.#count(site.whole, now);
    }
    return 0;
  }

  /** Evicts idle visitors. Call it regularly, because without requests nothing else does. */
  sweep(at: number): void {
    this.#forgetIdle(Math.floor(at) >>> 0, Infinity);
  }

  #site(name: string): Site {
    let site = this.#sites.get(name);
    if (site === undefined) {
      site = { name, visitors: new Map(), overflow: null, whole: null };
      this.#sites.set(name, site);
    }
    return site;
  }

  /** Returns the entry that counts a visitor; null when there is none yet. */
  #find(site: Site, visitor: number | string): Entry | null {
    return site.visitors.get(visitor) ?? (this.#hasRoom(site) ? null : site.overflow);
  }

  #add(site: Site, visitor: number | string): Entry {
    if (!this.#hasRoom(site)) {
      site.overflow = new Entry(site, null);
      return site.overflow;
    }
    const entry = new Entry(site, visitor);
    site.visitors.set(visitor, entry);
    this.#visitors++;
    return entry;
  }

  #hasRoom(site: Site): boolean {
    return site.visitors.size < this.#siteVisitorsMax && this.#visitors < this.#visitorsMax;
  }

  #count(entry: Entry, now: number): void {
    entry.window.add(now);
    entry.last = now;
    if (entry === this.#newest) return;
    this.#unlink(entry);
    entry.older = this.#newest;
    if (this.#newest === null) this.#oldest = entry;
    else this.#newest.newer = entry;
    this.#newest = entry;
  }

  #unlink(entry: Entry): void {
    if (entry.older !== null) entry.older.newer = entry.newer;
    else if (entry === this.#oldest) this.#oldest = entry.newer;
    if (entry.newer !== null) entry.newer.older = entry.older;
    else if (entry === this.#newest) this.#newest = entry.older;
    entry.older = null;
    entry.newer = null;
  }

  #forgetIdle(now: number, most: number): void {
    for (let left = most; left > 0; left--) {
      const entry = this.#oldest;
      if (entry === null || since(entry.last, now) < WINDOW_MS) return;
      this.#unlink(entry);
      this.#forget(entry);
    }
  }

  #forget(entry: Entry): void {
    const { site, visitor } = entry;
    if (visitor !== null) {
      site.visitors.delete(visitor);
      this.#visitors--;
    } else if (entry === site.whole) site.whole = null;
    else site.overflow = null;
    if (site.visitors.size === 0 && site.whole === null && site.overflow === null) {
      this.#sites.delete(site.name);
    }
  }
}

/** Returns the ms until the limit admits one more request; 0 if it admits one now. */
function roomInMs(entry: Entry | null, rpm: number, now: number): number {
  if (entry === null) return 0;
  const limit = Math.max(1, Math.floor(rpm / 6));
  return entry.window.count(now) < limit ? 0 : entry.window.roomInMs(limit, now);
}
