// Counts an app's requests by device, path, referrer and country, for each hour and day (UTC).
import type { Database } from 'better-sqlite3';
import type { BreakdownParams, Ranked } from '../../../handlers/contract/host/host-routes.ts';
import type { Result } from '../../../handlers/contract/index.ts';
import {
  BREAKDOWN_MIGRATIONS,
  type BreakdownKind,
  type BreakdownPlace,
  type BreakdownQueries,
  type BreakdownRow,
  breakdownQueries,
} from '../../../sqlite/telemetry/breakdowns.ts';
import { bytesInUse } from '../../../sqlite/telemetry/database.ts';
import type { Immediate, Part, Taken } from '../part.ts';
import type { ThreadOptions } from '../protocol.ts';
import type { Store } from '../store/store.ts';
import { type CountedRequest, isError } from '../traces/request-lines.ts';
import { deviceKey, readDevice } from './devices.ts';
import { foldPath } from './paths.ts';
import { OTHER, Tally } from './tally.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Ranges up to this many hours are read by the hour, longer ones by the day. */
const BY_HOUR_MAX = 48;
const HOURS_KEPT_MS = (BY_HOUR_MAX + 2) * HOUR_MS;
/** Longest key, in characters. */
const KEY_MAX = 200;
/** Maximum cached keys after a write. Over it, the cache is emptied. */
const CACHED_KEYS_MAX = 200_000;
/** Maximum keys that wait while writes fail. Over it, all unwritten counts are dropped. */
const UNWRITTEN_KEYS_MAX = 400_000;
/** An hour or day is removed from the cache this long after its end, in ms. */
const OVER_MS = 60_000;
/** Limit of the database's pages in use, in bytes. */
const BYTES_MAX = 1024 * 1024 * 1024;
/** Rows in one batch of removals. */
const PIECE = 500;

/** The key of requests without a referrer. It is not a valid host name. */
const NO_REFERRER = '(none)';
/** The key of requests from an unknown country. */
const NO_COUNTRY = '(none)';

interface Cached {
  place: BreakdownPlace;
  tally: Tally;
}

interface Last {
  app: string;
  hour: number;
  tallies: [hour: Record<BreakdownKind, Tally>, day: Record<BreakdownKind, Tally>];
}

const KINDS = ['devices', 'paths', 'refs', 'countries'] as const;

export class Breakdowns implements Part {
  readonly name = 'breakdowns';
  readonly dropped = { breakdowns: 0 };
  readonly answers: Immediate<BreakdownKind>;
  readonly #database: Database;
  readonly #rows: BreakdownQueries;
  readonly #retentionMs: number;
  readonly #cached = new Map<string, Cached>();
  readonly #unwritten = new Set<Cached>();
  #last: Last | null = null;

  constructor(store: Store, { retentionDays }: Pick<ThreadOptions, 'retentionDays'>) {
    this.#database = store.open('breakdowns', BREAKDOWN_MIGRATIONS);
    this.#rows = breakdownQueries(this.#database);
    this.#retentionMs = retentionDays * DAY_MS;
    this.answers = {
      devices: (params) => this.#list('devices', params, shownDevice),
      paths: (params) => this.#list('paths', params, (key) => ({ path: key === OTHER ? null : key })),
      refs: (params) => this.#list('refs', params, (key) => shownReferrer(key, params.own ?? [])),
      countries: (params) => this.#list('countries', params, shownCountry),
    };
  }

  take({ requests }: Taken): void {
    for (const request of requests) {
      const failed = isError(request);
      const [hour, day] = this.#talliesOf(request.appId, request.endedAt);
      const keys = keysOf(request);
      for (const kind of KINDS) {
        hour[kind].add(keys[kind], failed);
        day[kind].add(keys[kind], failed);
      }
    }
  }

  flush(): void {
    try {
      this.#database.transaction(() => this.#write())();
    } catch (error) {
      this.#dropUnwritten();
      throw error;
    }
    this.#last = null;
    for (const { tally } of this.#unwritten) tally.written();
    this.#unwritten.clear();
    this.#evict(Date.now());
  }

  prune(now: number): boolean {
    const hoursMs = Math.min(HOURS_KEPT_MS, this.#retentionMs);
    const hours = this.#rows.deleteBefore(HOUR_MS, now - hoursMs, PIECE);
    const days = this.#rows.deleteBefore(DAY_MS, now - this.#retentionMs - DAY_MS, PIECE);
    return hours + days + this.#removeTooMuch() >= PIECE;
  }

  /**
   * Removes the oldest rows when the file is too large, of hours first. Does not look for the largest app, because the
   * keys of each app are limited. @returns how many
   */
  #removeTooMuch(): number {
    if (bytesInUse(this.#database) < BYTES_MAX) return 0;
    const removed =
      this.#rows.deleteBefore(HOUR_MS, Number.MAX_SAFE_INTEGER, PIECE) ||
      this.#rows.deleteBefore(DAY_MS, Number.MAX_SAFE_INTEGER, PIECE);
    this.dropped.breakdowns += removed;
    return removed;
  }

  forget(appId: string): boolean {
    this.#last = null;
    for (const [name, cached] of this.#cached) {
      if (cached.place.app !== appId) continue;
      this.#cached.delete(name);
      this.#unwritten.delete(cached);
    }
    return this.#rows.deleteOf(appId, PIECE) === PIECE;
  }

  apps(): string[] {
    return this.#rows.apps();
  }

  #list<Shown>(
    kind: BreakdownKind,
    { appId, hours, limit, offset }: BreakdownParams,
    show: (key: string) => Shown,
  ): Ranked<Shown & Omit<BreakdownRow, 'key'>> {
    this.flush();
    const length = hours <= BY_HOUR_MAX ? HOUR_MS : DAY_MS;
    const from = Date.now() - hours * HOUR_MS;
    const place = { app: appId, kind, length };
    const rows = this.#rows.top(place, from - (from % length), limit + 1, offset);
    const items = rows.slice(0, limit).map(({ key, ...counts }) => ({ ...show(key), ...counts }));
    return { items, next: rows.length > limit ? offset + limit : null };
  }

  /** Returns the tallies of an hour and its day. Keeps the last ones, which are usually needed next. */
  #talliesOf(app: string, time: number): Last['tallies'] {
    const hour = time - (time % HOUR_MS);
    if (this.#last?.hour === hour && this.#last.app === app) return this.#last.tallies;
    const of = (length: number): Record<BreakdownKind, Tally> => ({
      devices: this.#at(app, 'devices', length, time),
      paths: this.#at(app, 'paths', length, time),
      refs: this.#at(app, 'refs', length, time),
      countries: this.#at(app, 'countries', length, time),
    });
    this.#last = { app, hour, tallies: [of(HOUR_MS), of(DAY_MS)] };
    return this.#last.tallies;
  }

  #at(app: string, kind: BreakdownKind, length: number, time: number): Tally {
    const at = time - (time % length);
    const name = `${app} ${kind} ${length} ${at}`;
    let cached = this.#cached.get(name);
    if (cached === undefined) {
      const place = { app, kind, length, at };
      cached = { place, tally: new Tally(this.#rows.all(place)) };
      this.#cached.set(name, cached);
    }
    this.#unwritten.add(cached);
    return cached.tally;
  }

  #write(): void {
    for (const { place, tally } of this.#unwritten) {
      for (const [key, counts] of tally.changes()) {
        if (counts === null) this.#rows.delete(place, key);
        else this.#rows.save(place, { key, ...counts });
      }
    }
  }

  /** Drops all unwritten counts when their keys are over the limit. */
  #dropUnwritten(): void {
    let keys = 0;
    for (const { tally } of this.#unwritten) keys += tally.keys;
    if (keys <= UNWRITTEN_KEYS_MAX) return;
    this.dropped.breakdowns += keys;
    this.#last = null;
    this.#unwritten.clear();
    this.#cached.clear();
  }

  /** Evicts past hours and days. Empties the cache if it is still too large. */
  #evict(now: number): void {
    let keys = 0;
    for (const [name, { place, tally }] of this.#cached) {
      if (place.at + place.length < now - OVER_MS) this.#cached.delete(name);
      else keys += tally.keys;
    }
    if (keys > CACHED_KEYS_MAX) this.#cached.clear();
  }
}

function keysOf({ userAgent, path, referrer, country }: CountedRequest): Record<BreakdownKind, string> {
  return {
    devices: deviceKey(userAgent),
    paths: foldPath(path).slice(0, KEY_MAX),
    refs: referrerKey(referrer),
    countries: country ?? NO_COUNTRY,
  };
}

function shownDevice(key: string): Omit<Result<'devices.list'>['items'][number], 'requests' | 'errors'> {
  return key === OTHER ? { kind: 'other', client: null, os: null } : readDevice(key);
}

function shownReferrer(
  key: string,
  own: readonly string[],
): Omit<Result<'refs.list'>['items'][number], 'requests' | 'errors'> {
  if (key === OTHER) return { referrer: null, source: 'other' };
  if (key === NO_REFERRER) return { referrer: null, source: 'none' };
  return { referrer: key, source: own.includes(key) ? 'own' : 'site' };
}

function shownCountry(key: string): { country: string | null } {
  return { country: key === OTHER || key === NO_COUNTRY ? null : key };
}

/** Returns the host name of a referrer. An invalid address counts as no referrer. */
function referrerKey(referrer: string): string {
  if (referrer === '') return NO_REFERRER;
  const host = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/@]*@)?(\[[0-9a-f:.]+\]|[^/:?#]+)/i.exec(referrer)?.[1];
  return host === undefined ? NO_REFERRER : host.toLowerCase().slice(0, KEY_MAX);
}
