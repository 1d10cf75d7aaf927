// Decides rate limits: how many requests a visitor may make of a site, and all its visitors together.
import { visitorOf } from './networks.ts';
import { since, WINDOW_MS, Window } from './window.ts';

/** The limits of one site, in requests per minute; 0 is off. They may differ from call to call. */
export interface SiteLimits {
  /** The site's name. What has the same name is counted together. */
  site: string;
  /** The name that it is counted under, where that is not the site's. */
  countedAs?: string;
  /** For each visitor. */
  clientRpm: number;
  /** For all visitors together. */
  appRpm: number;
}

/** Visitors that one site keeps apart, and all sites together. Above that, new ones share an entry of their site. */
const SITE_VISITORS_MAX = 16_384;
const VISITORS_MAX = 131_072;
/** Idle entries forgotten with each decision: more than it can add, so that they go in time without a pause. */
const FORGOTTEN_AT_ONCE = 4;

interface Site {
  name: string;
  visitors: Map<number | string, Entry>;
  /** For visitors that came when there was no room. */
  overflow: Entry | null;
  whole: Entry | null;
}

/** What is known of one visitor, or of a site's overflow or whole. */
class Entry {
  readonly window = new Window();
  readonly site: Site;
  readonly visitor: number | string | null;
  /** When it was last admitted. */
  last = 0;
  older: Entry | null = null;
  newer: Entry | null = null;

  constructor(site: Site, visitor: number | string | null) {
    this.site = site;
    this.visitor = visitor;
  }
}

/** Decides by what was admitted in the last ten seconds. Keeps nothing of anyone idle for longer. */
export class Limiter {
  readonly #sites = new Map<string, Site>();
  readonly #siteVisitorsMax: number;
  readonly #visitorsMax: number;
  #visitors = 0;
  /** Entries from the one admitted longest ago to the one admitted last. */
  #oldest: Entry | null = null;
  #newest: Entry | null = null;

  /** @param capacity visitors kept apart: of one site, and of all */
  constructor(capacity: { site?: number; all?: number } = {}) {
    this.#siteVisitorsMax = capacity.site ?? SITE_VISITORS_MAX;
    this.#visitorsMax = capacity.all ?? VISITORS_MAX;
  }

  /** Visitors kept apart now. */
  get visitors(): number {
    return this.#visitors;
  }

  /**
   * Admits a request, or says when to come again. A limit of N per minute admits max(1, ⌊N/6⌋) in any ten seconds;
   * what is refused does not count.
   * @param client an address; IPv6 counts by /64
   * @param at the time in ms, on a clock that never goes back
   * @returns 0, or the seconds after which the same request would be admitted if none comes between
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

  /** Forgets who is idle. To be called now and then, for when no request comes that would do it. */
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

  /** The entry that counts a visitor; null when there is none yet. */
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

/** 0 when there is room now. */
function roomInMs(entry: Entry | null, rpm: number, now: number): number {
  if (entry === null) return 0;
  const limit = Math.max(1, Math.floor(rpm / 6));
  return entry.window.count(now) < limit ? 0 : entry.window.roomInMs(limit, now);
}
