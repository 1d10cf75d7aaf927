// The groups of errors as they are written: which group an error belongs to, and what it changes there.

import type { ErrorQueries, GroupRow } from '../../../sqlite/telemetry/errors.ts';
import type { Circumstances } from '../../../sqlite/telemetry/occurrences.ts';
import { Recent } from '../store/recent.ts';
import type { ErrorBounds } from './error-bounds.ts';
import { GROUPING } from './fingerprint.ts';

const HOUR_MS = 3_600_000;
/** Hours of a group that are counted by themselves. */
export const HOURS = 24;
/** Groups of one app: more come only in the place of others. */
const APP_GROUPS = 200;
/** A group that was seen this short ago makes no room for another one. */
const SPARED_MS = HOUR_MS;
/** Occurrences that a group keeps. */
const OCCURRENCES = 20;
/** Changes are numbered so that their numbers also say about when they were, also after the file was lost. */
const CHANGES_PER_MS = 100;
/** Where errors go that would be one group too many. */
const OTHER = {
  fingerprint: 'other',
  kind: 'Other',
  message: 'more errors than are told apart; of most of them only the number is known',
  mechanism: 'uncaught',
};

/** An error on its way into its group. */
export interface Occurrence extends Circumstances {
  appId: string;
  at: number;
  release: string | null;
  /** The same for each time that one error is told. */
  id: string | null;
  kind: string;
  fingerprint: string;
  stack: string | null;
}

/** Where an error was counted. */
interface Told {
  fingerprint: string;
  /** The id of its occurrence, which may have made room for others since. */
  occurrence: number;
}

export class ErrorGroups {
  readonly #queries: ErrorQueries;
  readonly #bounds: ErrorBounds;
  /** By the ids that apps give their errors. */
  readonly #told = new Recent<Told>();
  #lastChange: number;
  /** Groups that are to be written and shown, by id. */
  #changed = new Map<number, GroupRow>();

  constructor(queries: ErrorQueries, bounds: ErrorBounds) {
    this.#queries = queries;
    this.#bounds = bounds;
    this.#lastChange = queries.lastChange();
  }

  /**
   * Counts errors in their groups, all of them or, when it throws, none.
   * @param untold errors by app of which nothing is known but that they were
   * @returns the groups that have changed
   */
  write(occurrences: readonly Occurrence[], untold: ReadonlyMap<string, number>): GroupRow[] {
    this.#changed = new Map();
    const counted: Occurrence[] = [];
    try {
      this.#queries.transaction(() => {
        for (const each of occurrences) if (this.#add(each)) counted.push(each);
        for (const [appId, count] of untold) this.#addUntold(appId, count);
        for (const group of this.#changed.values()) this.#queries.update(group);
        this.#bounds.makeRoom(new Set(occurrences.map(({ appId }) => appId)));
      });
    } catch (error) {
      for (const { appId, id } of counted) if (id !== null) this.#told.delete(appId, id);
      throw error;
    }
    return [...this.#changed.values()];
  }

  forget(appId: string): void {
    this.#told.forget(appId);
  }

  /** Counts an occurrence in its group. @returns whether it was not counted before */
  #add(each: Occurrence): boolean {
    const told = each.id === null ? undefined : this.#told.get(each.appId, each.id);
    if (told !== undefined && this.#join(told, each)) return false;
    const group = this.#group(each);
    const { message, place, mechanism, handler, method, path, trace_id, stack, at, release } = each;
    const circumstances = { message, place, mechanism, handler, method, path, trace_id };
    const shown = group.fingerprint === OTHER.fingerprint ? { trace_id } : circumstances;
    const isNewer = release !== null && release > (group.resolved_release ?? '');
    const regressed = group.status === 'resolved' && isNewer;
    this.#changed.set(group.id, {
      ...group,
      ...shown,
      count: group.count + 1,
      last_seen_at: Math.max(group.last_seen_at, at),
      last_release: release !== null && release > (group.last_release ?? '') ? release : group.last_release,
      change: this.nextChange(),
      ...(regressed && { status: 'open' as const, regressed_at: at }),
    });
    const occurrence = this.#queries.addOccurrence(
      group.id,
      { ...circumstances, stack, at, release },
      OCCURRENCES,
    );
    const hour = Math.floor(at / HOUR_MS);
    this.#queries.addHour(group.id, hour, 1, hour - HOURS);
    if (each.id !== null) this.#told.set(each.appId, each.id, { fingerprint: group.fingerprint, occurrence });
    return true;
  }

  /** Adds what is known better when an error is told again. @returns whether the group is there that it was counted in */
  #join(
    { fingerprint, occurrence }: Told,
    { appId, mechanism, method, path, trace_id }: Occurrence,
  ): boolean {
    const group = this.#find(appId, fingerprint);
    if (group === undefined) return false;
    const row = this.#queries.occurrence(occurrence);
    if (row === undefined) return true;
    // Who tells later is further out: the request that all began with.
    const request = method === null ? {} : { method, path, trace_id };
    const better = { ...request, ...(row.mechanism === 'console' && { mechanism }) };
    this.#queries.updateOccurrence(group.id, { ...row, ...better });
    const isShown =
      fingerprint !== OTHER.fingerprint && this.#queries.lastOccurrence(group.id) === occurrence;
    if (isShown) this.#changed.set(group.id, { ...group, ...better, change: this.nextChange() });
    return true;
  }

  #addUntold(appId: string, count: number): void {
    const at = Date.now();
    const group =
      this.#find(appId, OTHER.fingerprint) ?? this.#newGroup({ appId, at, release: null, ...OTHER });
    const change = this.nextChange();
    this.#changed.set(group.id, { ...group, count: group.count + count, last_seen_at: at, change });
    const hour = Math.floor(at / HOUR_MS);
    this.#queries.addHour(group.id, hour, count, hour - HOURS);
  }

  #group(each: Occurrence): GroupRow {
    const { appId, at, release, mechanism } = each;
    const found = this.#find(appId, each.fingerprint);
    if (found !== undefined) return found;
    const hasRoom = this.#queries.count(appId) < APP_GROUPS && this.#bounds.hasRoomForGroup(appId);
    if (hasRoom || this.#makeRoom(appId)) return this.#newGroup(each);
    return (
      this.#find(appId, OTHER.fingerprint) ?? this.#newGroup({ appId, at, release, ...OTHER, mechanism })
    );
  }

  #newGroup({
    appId,
    at,
    release,
    fingerprint,
    kind,
    message,
    mechanism,
  }: Pick<
    Occurrence,
    'appId' | 'at' | 'release' | 'fingerprint' | 'kind' | 'message' | 'mechanism'
  >): GroupRow {
    const row = {
      app_id: appId,
      fingerprint,
      grouping: GROUPING,
      kind,
      message,
      place: null,
      mechanism,
      handler: null,
      method: null,
      path: null,
      trace_id: null,
      count: 0,
      status: 'open' as const,
      first_seen_at: at,
      last_seen_at: at,
      first_release: release,
      last_release: release,
      resolved_release: null,
      regressed_at: null,
      change: this.nextChange(),
    };
    return { id: this.#queries.insert(row), ...row };
  }

  #find(appId: string, fingerprint: string): GroupRow | undefined {
    const found = this.#queries.find(appId, fingerprint);
    return found && (this.#changed.get(found.id) ?? found);
  }

  /** Gives up the group that was not seen for the longest time, unless all were seen just now. */
  #makeRoom(appId: string): boolean {
    const oldest = this.#queries.oldest(appId);
    if (oldest === undefined || this.#changed.has(oldest.id)) return false;
    if (oldest.last_seen_at > Date.now() - SPARED_MS) return false;
    this.#queries.remove(oldest.id);
    return true;
  }

  /** The number of the next change of any group: higher than all before. */
  nextChange(): number {
    this.#lastChange = Math.max(this.#lastChange + 1, Date.now() * CHANGES_PER_MS);
    return this.#lastChange;
  }
}
