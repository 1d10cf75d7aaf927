// Limits stored errors. Removes first the oldest occurrences of the app whose occurrences have the most bytes. Groups hold
// the status that people set. So they are removed only over the limit of groups, or when a full file has no occurrences.
import type { Database } from 'better-sqlite3';
import { bytesInUse } from '../../../sqlite/telemetry/database.ts';
import type { ErrorQueries } from '../../../sqlite/telemetry/errors.ts';
import { maxBy } from '../store/max-by.ts';

/** Limit of one app's occurrences, in bytes. */
const APP_BYTES = 16 * 1024 * 1024;
/** Limit of the database's pages in use, in bytes. */
const ALL_BYTES = 256 * 1024 * 1024;
/** Limit of groups of all apps. */
const ALL_GROUPS = 5_000;
/** Occurrences in one batch of removals. */
const OCCURRENCES_PIECE = 100;
/** Groups in one batch of removals. */
const GROUPS_PIECE = 10;
/** An app loses groups only to an app with at least this many fewer. Otherwise two apps could evict each other's groups. */
const GROUPS_FEWER = 20;

/** Limits, for tests. */
export interface ErrorBoundsOptions {
  appBytes?: number;
  allBytes?: number;
  allGroups?: number;
}

export class ErrorBounds {
  /** Numbers of rows removed over the limits since the start. */
  readonly dropped = { error_occurrences: 0, error_groups: 0 };
  readonly #database: Database;
  readonly #queries: ErrorQueries;
  readonly #appBytes: number;
  readonly #allBytes: number;
  readonly #allGroups: number;
  /** Number of groups of each app during a write; null: not counted yet. */
  #groups: Map<string, number> | null = null;

  constructor(
    database: Database,
    queries: ErrorQueries,
    { appBytes = APP_BYTES, allBytes = ALL_BYTES, allGroups = ALL_GROUPS }: ErrorBoundsOptions,
  ) {
    this.#database = database;
    this.#queries = queries;
    this.#appBytes = appBytes;
    this.#allBytes = allBytes;
    this.#allGroups = allGroups;
  }

  /** Whether an app may have one more group. Evicts groups of the app with the most groups, if necessary. */
  hasRoomForGroup(appId: string): boolean {
    if (this.#queries.countAll() < this.#allGroups) return true;
    this.#groups ??= new Map(this.#queries.sizes().map(({ app_id, groups }) => [app_id, groups]));
    const its = this.#groups.get(appId) ?? 0;
    const most = maxBy(this.#groups, ([, groups]) => groups);
    if (most === null || most[1] < its + GROUPS_FEWER) return false;
    const removed = this.#removeGroups(most[0]);
    this.#groups.set(most[0], most[1] - removed).set(appId, its + 1);
    return removed > 0;
  }

  /** Removes rows over the limits during a write: `prune` alone might remove less than is written. */
  makeRoom(appIds: Iterable<string>): void {
    this.#groups = null;
    for (const appId of appIds) this.#removeOccurrences(appId, this.#appBytes);
    if (this.#isFull) this.prune();
  }

  /** Removes one batch over the limits. @returns whether more may be left */
  prune(): boolean {
    const sizes = this.#queries.sizes();
    const largest = maxBy(sizes, ({ bytes }) => bytes);
    if (largest === null) return false;
    const bytesLeft = this.#isFull ? 0 : this.#appBytes;
    if (this.#removeOccurrences(largest.app_id, bytesLeft) > 0) return true;
    const groups = sizes.reduce((sum, each) => sum + each.groups, 0);
    if (groups <= this.#allGroups && !this.#isFull) return false;
    return this.#removeGroups(maxBy(sizes, (each) => each.groups)!.app_id) > 0;
  }

  #removeGroups(appId: string): number {
    const removed = this.#queries.removeOf(appId, GROUPS_PIECE);
    this.dropped.error_groups += removed;
    return removed;
  }

  get #isFull(): boolean {
    return bytesInUse(this.#database) > this.#allBytes;
  }

  #removeOccurrences(appId: string, bytesLeft: number): number {
    if (this.#queries.bytes(appId) <= bytesLeft) return 0;
    const removed = this.#queries.removeOccurrences(appId, bytesLeft, OCCURRENCES_PIECE);
    this.dropped.error_occurrences += removed;
    return removed;
  }
}
