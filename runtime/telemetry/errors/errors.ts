// Groups the errors of apps: those that their Workers report, failed starts, and unexpected ends of their processes.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from 'better-sqlite3';
import type { GroupedError } from '../../../handlers/contract/telemetry/grouped-errors.ts';
import {
  ERRORS_MIGRATIONS,
  type ErrorQueries,
  errorQueries,
  type GroupRow,
  type GroupStatus,
} from '../../../sqlite/telemetry/errors.ts';
import type { CopySource } from '../copies/source.ts';
import { Listeners } from '../listeners.ts';
import { idAt } from '../logs/log-rows.ts';
import { type Answers, AskRefusal, type Part } from '../part.ts';
import type { Asks, Batch, FollowKind, OpenGroup, StreamPiece, ThreadOptions } from '../protocol.ts';
import type { Store } from '../store/store.ts';
import { ErrorBounds, type ErrorBoundsOptions } from './error-bounds.ts';
import { ErrorCopies } from './error-copies.ts';
import { ErrorGroups, type Occurrence } from './error-groups.ts';
import { ErrorIntake, type ErrorIntakeOptions, type ErrorReport } from './error-intake.ts';
import { type ErrorFollow, ErrorListener } from './error-listener.ts';
import { shownGroup } from './error-shown.ts';
import { errorOfFailure } from './failures.ts';

const DAY_MS = 24 * 3_600_000;
/** When a write fails and more errors than this are queued, all queued errors are only counted. */
const PENDING_MAX = 200;
/** Errors are written after this time, in ms. */
const WRITE_MS = 200;
/** Errors are written at once when this many are queued. */
const WRITE_AT_ONCE = 1_000;
/** On close, the longest wait for the source places of queued errors, in ms. */
const CLOSE_MS = 1_000;
/** Maximum number of missed groups that a reconnecting listener gets. */
const MISSED = 500;
/** Maximum log lines shown with an occurrence. They have the occurrence's trace id. */
const LINES = 20;
/** The shown lines were printed at most this long before the occurrence, in ms. */
const LINES_BEFORE_MS = 60_000;
/** The shown lines were printed at most this long after the occurrence, in ms. */
const LINES_AFTER_MS = 5_000;
/** Maximum delay from printing to storing a line, in ms. Extends the search, because ids have the time of storing. */
const LINES_KEPT_MS = 20_000;
/** Groups in one batch of removals. */
const PIECE = 50;
/** Minimum time between two notifications of one group, in ms. */
const NOTIFY_EVERY_MS = 60_000;
/** When more notification times than this are remembered, all of them are forgotten. */
const REMEMBERED = 20_000;

/** Reads an app's log lines for the shown occurrences. */
type LogsOf = (params: Asks['logs']['params']) => Promise<Asks['logs']['answer']> | Asks['logs']['answer'];

export interface ErrorsOptions
  extends Pick<ThreadOptions, 'retentionDays'>,
    Pick<ErrorIntakeOptions, 'stacks' | 'allLength'>,
    ErrorBoundsOptions {}

export class Errors implements Part {
  readonly name = 'errors';
  readonly answers: Answers;
  #dropped = 0;
  /** By app, the number of errors that were dropped, here or in the app's process. They are counted without details. */
  #unreported = new Map<string, number>();
  readonly #database: Database;
  readonly #queries: ErrorQueries;
  readonly #groups: ErrorGroups;
  readonly #bounds: ErrorBounds;
  readonly #intake: ErrorIntake;
  readonly #retentionMs: number;
  readonly #logsOf: LogsOf;
  readonly #onGroups: (groups: OpenGroup[]) => void;
  /** When `#onGroups` was last called with a group, as `performance.now()`, by app and fingerprint. */
  readonly #notifiedAt = new Map<string, number>();
  #pending: Occurrence[] = [];
  #timer: NodeJS.Timeout | null = null;
  readonly #listeners = new Listeners<ErrorListener>();

  constructor(
    store: Store,
    { stacks, retentionDays, allLength, ...bounds }: ErrorsOptions,
    logsOf: LogsOf,
    onGroups: (groups: OpenGroup[]) => void = () => {},
  ) {
    this.#onGroups = onGroups;
    this.#database = store.open('errors', ERRORS_MIGRATIONS);
    this.#queries = errorQueries(this.#database);
    this.#bounds = new ErrorBounds(this.#database, this.#queries, bounds);
    this.#intake = new ErrorIntake({
      stacks,
      onOccurrence: (occurrence) => {
        this.#pending.push(occurrence);
        if (this.#pending.length >= WRITE_AT_ONCE) this.#write();
        else this.#writeSoon();
      },
      onDropped: (appId, count) => this.#drop(appId, count),
      allLength,
    });
    this.#retentionMs = retentionDays * DAY_MS;
    this.#logsOf = logsOf;
    this.#groups = new ErrorGroups(this.#queries, this.#bounds);
    this.answers = {
      errors: (params) => this.#list(params),
      'errors/get': (params) => this.#get(params),
      'errors/status': (params) => this.#setStatus(params),
      'errors/open': ({ appIds }) =>
        Object.fromEntries(appIds.map((id) => [id, this.#queries.countOpen(id)])),
    };
  }

  get dropped(): { errors: number; error_occurrences: number; error_groups: number } {
    return { errors: this.#dropped, ...this.#bounds.dropped };
  }

  take({ failures }: Pick<Batch, 'failures'>): void {
    for (const { appId, deployId: release, at, ...failure } of failures)
      this.report({ appId, release, at, traceId: null, error: errorOfFailure(failure) });
  }

  report(reported: ErrorReport): void {
    const { appId, error } = reported;
    if (error.untold > 0) this.#addUnreported(appId, error.untold);
    this.#intake.take(reported);
  }

  /** Resolves when no error waits for its source places. */
  settled(): Promise<void> {
    return this.#intake.settled();
  }

  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#pending.length + this.#unreported.size === 0) return;
    const changed = this.#groups.write(this.#pending, this.#unreported);
    this.#pending = [];
    this.#unreported = new Map();
    for (const group of changed) this.#show(group, group.status);
    this.#notify(changed);
  }

  /** Writes all queued errors. Those that still wait for their source places after a second are only counted. */
  async close(): Promise<void> {
    await Promise.race([this.settled(), sleep(CLOSE_MS, undefined, { ref: false })]);
    this.#intake.giveUp();
    this.flush();
  }

  prune(now: number): boolean {
    this.#intake.tidy();
    const removed = this.#queries.removeBefore(now - this.#retentionMs, PIECE);
    return removed === PIECE || this.#bounds.prune();
  }

  forget(appId: string): boolean {
    this.#listeners.end(appId);
    this.#intake.forget(appId);
    this.#groups.forget(appId);
    this.#pending = this.#pending.filter((each) => each.appId !== appId);
    this.#unreported.delete(appId);
    return this.#queries.removeOf(appId, PIECE) === PIECE;
  }

  apps(): string[] {
    return this.#queries.apps();
  }

  follow(
    appId: string,
    kind: FollowKind,
    params: unknown,
    push: (pieces: StreamPiece[]) => void,
  ): (() => void) | undefined {
    if (kind !== 'errors') return undefined;
    this.flush();
    const follow = params as ErrorFollow;
    const listener = new ErrorListener(follow, this.#listeners.sender(appId, push));
    const end = this.#listeners.add(appId, listener);
    if (follow.after !== null) {
      // Sends groups of any status, because the client must learn of a group that has left the followed status.
      for (const group of this.#queries.changedAfter(appId, follow.after, MISSED))
        listener.take(group.change, shownGroup(this.#queries, group));
    }
    return end;
  }

  #drop(appId: string, count: number): void {
    this.#dropped += count;
    this.#addUnreported(appId, count);
  }

  #addUnreported(appId: string, count: number): void {
    this.#unreported.set(appId, (this.#unreported.get(appId) ?? 0) + count);
    this.#writeSoon();
  }

  #writeSoon(): void {
    this.#timer ??= setTimeout(() => this.#write(), WRITE_MS);
  }

  /** Writes the queued errors. A failed write is retried with the next errors, or by the thread's flush. */
  #write(): void {
    try {
      this.flush();
    } catch {
      // The thread's regular flush reports the failure.
      if (this.#pending.length > PENDING_MAX) {
        for (const { appId } of this.#pending) this.#drop(appId, 1);
        this.#pending = [];
      }
    }
  }

  #list({ appId, status, limit, afterAt, afterId }: Asks['errors']['params']): Asks['errors']['answer'] {
    this.flush();
    const after = afterAt === undefined || afterId === undefined ? null : { at: afterAt, id: afterId };
    const rows = this.#queries.list(appId, status, after, limit + 1);
    const last = rows.length > limit ? rows[limit - 1]! : null;
    return {
      items: rows.slice(0, limit).map((row) => shownGroup(this.#queries, row)),
      next: last === null ? null : { at: last.last_seen_at, id: last.id },
    };
  }

  async #get({ appId, fingerprint }: Asks['errors/get']['params']): Promise<Asks['errors/get']['answer']> {
    this.flush();
    const group = this.#groupOf(appId, fingerprint);
    const occurrences = await Promise.all(
      this.#queries.occurrences(group.id).map(async ({ id: _id, at, ...occurrence }) => {
        const { trace_id: traceId } = occurrence;
        const log = traceId === null ? [] : await this.#linesAround(appId, at, traceId);
        return { at: new Date(at).toISOString(), ...occurrence, log };
      }),
    );
    return { ...shownGroup(this.#queries, group), occurrences };
  }

  /** Returns the error groups as a source of copies in the bucket. @param root the folder of the host's copies */
  copies(root: string): CopySource {
    return new ErrorCopies(this.#database, root, this.#queries, (groups) => {
      for (const copied of groups) {
        const group = this.#groups.add(copied);
        if (group !== null) this.#show(group, group.status);
      }
    });
  }

  async #linesAround(appId: string, at: number, traceId: string) {
    const since = at - LINES_BEFORE_MS;
    const until = at + LINES_AFTER_MS;
    const before = idAt(until + LINES_KEPT_MS);
    const { items } = await this.#logsOf({ appId, limit: LINES, since, until, before, traceId });
    return items.reverse().map(({ at, level, text }) => ({ at, level, text }));
  }

  #setStatus({ appId, fingerprint, status }: Asks['errors/status']['params']): GroupedError {
    this.flush();
    const group = this.#groupOf(appId, fingerprint);
    const changed: GroupRow = {
      ...group,
      status,
      resolved_release: status === 'resolved' ? (group.last_release ?? '') : null,
      regressed_at: status === 'open' ? group.regressed_at : null,
      change: this.#groups.nextChange(),
    };
    this.#queries.update(changed);
    this.#show(changed, group.status);
    return shownGroup(this.#queries, changed);
  }

  /** Calls `#onGroups` with the changed groups that are open, rate-limited for each group. */
  #notify(groups: GroupRow[]): void {
    const now = performance.now();
    const due = groups.filter(({ app_id, fingerprint, status }) => {
      const before = this.#notifiedAt.get(`${app_id} ${fingerprint}`) ?? Number.NEGATIVE_INFINITY;
      return status === 'open' && now - before >= NOTIFY_EVERY_MS;
    });
    if (due.length === 0) return;
    if (this.#notifiedAt.size > REMEMBERED) this.#notifiedAt.clear();
    for (const { app_id, fingerprint } of due) this.#notifiedAt.set(`${app_id} ${fingerprint}`, now);
    this.#onGroups(
      due.map(({ app_id, fingerprint, kind, message, place, count, regressed_at, last_release }) => ({
        appId: app_id,
        fingerprint,
        kind,
        message,
        place,
        count,
        regressed: regressed_at !== null,
        release: last_release,
      })),
    );
  }

  #groupOf(appId: string, fingerprint: string): GroupRow {
    const group = this.#queries.find(appId, fingerprint);
    if (group === undefined) throw new AskRefusal('error_not_found', `there is no error ${fingerprint}`);
    return group;
  }

  /** Sends a group to followers of its current or previous status. */
  #show(group: GroupRow, before: GroupStatus): void {
    const listeners = [...(this.#listeners.of(group.app_id) ?? [])].filter(
      ({ status }) => status === group.status || status === before,
    );
    if (listeners.length === 0) return;
    const shown = shownGroup(this.#queries, group);
    for (const listener of listeners) listener.take(group.change, shown);
  }
}
