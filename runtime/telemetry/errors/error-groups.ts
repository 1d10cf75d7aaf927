// Writes errors into groups: finds an error's group and updates it.

import type { CopiedGroup, ErrorQueries, GroupRow } from '../../../sqlite/telemetry/errors.ts';
import type { ErrorContext } from '../../../sqlite/telemetry/occurrences.ts';
import { Recent } from '../store/recent.ts';
import type { ErrorBounds } from './error-bounds.ts';
import { GROUPING } from './fingerprint.ts';

const HOUR_MS = 3_600_000;
/** For how many hours each group keeps an hourly count. */
export const HOURS = 24;
/** Limit of groups of one app. At the limit, a new group replaces an old one, or its errors count in the group `OTHER`. */
const APP_GROUPS = 200;
/** A group seen within this time, in ms, is not replaced. */
const SPARED_MS = HOUR_MS;
/** Limit of stored occurrences of a group. */
const OCCURRENCES = 20;
/**
 * Each change has a number, and clients ask for changes with a higher number than their last one. A number is at least the
 * time (ms since 1970) multiplied by this constant. So numbers rise even after the file was lost.
 */
const CHANGES_PER_MS = 100;
/** The group of errors above the limit of groups, and of errors without details. */
const OTHER = {
  fingerprint: 'other',
  kind: 'Other',
  message:
    'errors that are in no group, because the app has too many groups; of most of them only the number is known',
  mechanism: 'uncaught',
};

/** An error before it is assigned to a group. */
export interface Occurrence extends ErrorContext {
  appId: string;
  at: number;
  release: string | null;
  /** Equal in all reports of one thrown error; null: unknown. */
  id: string | null;
  kind: string;
  fingerprint: string;
  stack: string | null;
}

/** Where an error was counted. */
interface CountedAt {
  fingerprint: string;
  /** The id of its occurrence, which may have been removed since. */
  occurrence: number;
}

export class ErrorGroups {
  readonly #queries: ErrorQueries;
  readonly #bounds: ErrorBounds;
  /** Where errors were counted, by app and the error's reported id. */
  readonly #countedAt = new Recent<CountedAt>();
  #lastChange: number;
  /** Groups that the current call of `write` has changed, by id. */
  #changed = new Map<number, GroupRow>();

  constructor(queries: ErrorQueries, bounds: ErrorBounds) {
    this.#queries = queries;
    this.#bounds = bounds;
    this.#lastChange = queries.lastChange();
  }

  /**
   * Counts errors in their groups: all of them, or none when it throws.
   * @param unreported by app, the number of errors without details
   * @returns the changed groups
   */
  write(occurrences: readonly Occurrence[], unreported: ReadonlyMap<string, number>): GroupRow[] {
    this.#changed = new Map();
    const counted: Occurrence[] = [];
    try {
      this.#queries.transaction(() => {
        for (const each of occurrences) if (this.#add(each)) counted.push(each);
        for (const [appId, count] of unreported) this.#addUnreported(appId, count);
        for (const group of this.#changed.values()) this.#queries.update(group);
        this.#bounds.makeRoom(new Set(occurrences.map(({ appId }) => appId)));
      });
    } catch (error) {
      for (const { appId, id } of counted) if (id !== null) this.#countedAt.delete(appId, id);
      throw error;
    }
    return [...this.#changed.values()];
  }

  /**
   * Adds a group from a copy in the bucket, or merges it into the group of the same error. Call it in a transaction.
   * @returns the group; null when the app has too many groups
   */
  add({ hours, ...copied }: CopiedGroup): GroupRow | null {
    const found = this.#queries.find(copied.app_id, copied.fingerprint);
    if (found === undefined && this.#queries.count(copied.app_id) >= APP_GROUPS) return null;
    const change = this.nextChange();
    const group = found
      ? { ...found, ...joined(found, copied), change }
      : { id: this.#queries.insert({ ...copied, change }), ...copied, change };
    if (found) this.#queries.update(group);
    const forgotten = Math.floor(Date.now() / HOUR_MS) - HOURS;
    for (const { hour, count } of hours) this.#queries.addHour(group.id, hour, count, forgotten);
    return group;
  }

  forget(appId: string): void {
    this.#countedAt.forget(appId);
  }

  /** Counts an occurrence in its group. @returns false if it was counted before */
  #add(each: Occurrence): boolean {
    const counted = each.id === null ? undefined : this.#countedAt.get(each.appId, each.id);
    if (counted !== undefined && this.#join(counted, each)) return false;
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
    if (each.id !== null)
      this.#countedAt.set(each.appId, each.id, { fingerprint: group.fingerprint, occurrence });
    return true;
  }

  /** Merges details when an error is reported again. @returns whether its group still exists */
  #join(
    { fingerprint, occurrence }: CountedAt,
    { appId, mechanism, method, path, trace_id }: Occurrence,
  ): boolean {
    const group = this.#find(appId, fingerprint);
    if (group === undefined) return false;
    const row = this.#queries.occurrence(occurrence);
    if (row === undefined) return true;
    // A later report comes from a caller further out, closer to the original request.
    const request = method === null ? {} : { method, path, trace_id };
    const better = { ...request, ...(row.mechanism === 'console' && { mechanism }) };
    this.#queries.updateOccurrence(group.id, { ...row, ...better });
    const isShown =
      fingerprint !== OTHER.fingerprint && this.#queries.lastOccurrence(group.id) === occurrence;
    if (isShown) this.#changed.set(group.id, { ...group, ...better, change: this.nextChange() });
    return true;
  }

  #addUnreported(appId: string, count: number): void {
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

  /** Removes the app's least recently seen group, unless it was seen recently. @returns whether it was removed */
  #makeRoom(appId: string): boolean {
    const oldest = this.#queries.oldest(appId);
    if (oldest === undefined || this.#changed.has(oldest.id)) return false;
    if (oldest.last_seen_at > Date.now() - SPARED_MS) return false;
    this.#queries.remove(oldest.id);
    return true;
  }

  /** Returns the next change number: higher than all before. */
  nextChange(): number {
    this.#lastChange = Math.max(this.#lastChange + 1, Date.now() * CHANGES_PER_MS);
    return this.#lastChange;
  }
}

/**
 * Returns the fields of a group that a merge with an earlier copy changes: the sum of the counts, the earlier start, and the
 * copy's first release. An open group also takes the copy's status. But if the copy was resolved at an older release,
 * the group stays open.
 */
function joined(group: GroupRow, earlier: Omit<GroupRow, 'id' | 'change'>): Partial<GroupRow> {
  const sums = {
    count: group.count + earlier.count,
    first_seen_at: Math.min(group.first_seen_at, earlier.first_seen_at),
    first_release: earlier.first_release,
  };
  if (group.status !== 'open') return sums;
  const { status, resolved_release, regressed_at } = earlier;
  const isNewer = (group.last_release ?? '') > (resolved_release ?? '');
  if (status === 'resolved' && isNewer) return { ...sums, regressed_at: group.first_seen_at };
  return { ...sums, status, resolved_release, regressed_at };
}
