// The errors of apps, grouped: those that their Workers report, and the ends of their processes.
import type { GroupedError } from '../../handlers/contract/telemetry.ts';
import {
  type Circumstances,
  ERRORS_MIGRATIONS,
  type ErrorQueries,
  errorQueries,
  type GroupRow,
  type GroupStatus,
} from '../../sqlite/telemetry/errors.ts';
import { type ErrorFollow, ErrorListener } from './error-listener.ts';
import { fingerprintOf, GROUPING } from './fingerprint.ts';
import { Listeners } from './listeners.ts';
import type { ReportedError } from './log-lines.ts';
import { type Answers, AskRefusal, type Part } from './part.ts';
import type { Asks, Batch, Failure, FollowKind, OpenGroup, StreamPiece, ThreadOptions } from './protocol.ts';
import type { SourceStacks } from './source-stacks.ts';
import type { Store } from './store.ts';

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Hours of a group that are counted by themselves. */
const HOURS = 24;
/** Groups of one app, and of all: more come only in the place of others. */
const APP_GROUPS = 200;
const ALL_GROUPS = 5_000;
/** A group that was seen this short ago makes no room for another one. */
const SPARED_MS = HOUR_MS;
/** Occurrences that a group keeps. */
const OCCURRENCES = 20;
/** Errors of one app that wait; of more only the number is kept. */
const WAITING = 200;
/** Errors are written this long after they came, in ms. */
const WRITE_MS = 200;
/** An error that is told again within the next so many is the same one. */
const REMEMBERED = 2_000;
/** Groups that a listener who comes back is sent. */
const MISSED = 500;
/** Lines of the log that an occurrence is shown with: those of its trace, from before it and a little after, in ms. */
const LINES = 20;
const LINES_BEFORE_MS = 60_000;
const LINES_AFTER_MS = 5_000;
/** Characters of the reason of a failure. */
const MESSAGE_LENGTH = 4_000;
/** A place in what does not load, as workerd says it. */
const PLACE = /\s+at ([\w./-]+:\d+:\d+)/g;
/** Groups that are removed at once. */
const PIECE = 50;
/** Changes are numbered so that their numbers also say about when they were, also after the file was lost. */
const CHANGES_PER_MS = 100;
/** Where errors go that would be one group too many. */
const OTHER = {
  fingerprint: 'other',
  kind: 'Other',
  message: 'more errors than are told apart; of most of them only the number is known',
  mechanism: 'uncaught',
};

/** Whoever is told of groups is told of one at most so often, in ms; and so many times are remembered. */
const TELL_EVERY_MS = 60_000;
const TOLD = 20_000;

/** An error on its way into its group. */
interface Occurrence extends Circumstances {
  appId: string;
  at: number;
  release: string | null;
  /** The same for each time that one error is told. */
  id: string | null;
  kind: string;
  fingerprint: string;
  stack: string | null;
}

/** Lines of an app's log, for the occurrences that are shown. */
type LogsOf = (params: Asks['logs']['params']) => Promise<Asks['logs']['answer']> | Asks['logs']['answer'];

export class Errors implements Part {
  readonly name = 'errors';
  readonly answers: Answers;
  readonly dropped = { errors: 0 };
  /** Errors of apps of which nothing is known but that they were. */
  #untold = new Map<string, number>();
  readonly #queries: ErrorQueries;
  readonly #stacks: SourceStacks;
  readonly #retentionMs: number;
  readonly #logsOf: LogsOf;
  readonly #onGroups: (groups: OpenGroup[]) => void;
  /** When `#onGroups` was last told of a group. */
  readonly #toldAt = new Map<number, number>();
  /** What waits for its places, one error of an app after another. */
  readonly #queues = new Map<string, { waiting: number; last: Promise<void> }>();
  #pending: Occurrence[] = [];
  #timer: NodeJS.Timeout | null = null;
  /** Occurrences by app and id. */
  readonly #recent = new Map<string, { group: number; occurrence: number }>();
  readonly #listeners = new Listeners<ErrorListener>();
  #lastChange: number;

  constructor(
    store: Store,
    { stacks, retentionDays }: Pick<ThreadOptions, 'retentionDays'> & { stacks: SourceStacks },
    logsOf: LogsOf,
    onGroups: (groups: OpenGroup[]) => void = () => {},
  ) {
    this.#onGroups = onGroups;
    this.#queries = errorQueries(store.open('errors', ERRORS_MIGRATIONS));
    this.#stacks = stacks;
    this.#retentionMs = retentionDays * DAY_MS;
    this.#logsOf = logsOf;
    this.#lastChange = this.#queries.lastChange();
    this.answers = {
      errors: (params) => this.#list(params),
      'errors/get': (params) => this.#get(params),
      'errors/status': (params) => this.#setStatus(params),
      'errors/open': ({ appIds }) =>
        Object.fromEntries(appIds.map((id) => [id, this.#queries.countOpen(id)])),
    };
  }

  take({ failures }: Pick<Batch, 'failures'>): void {
    for (const failure of failures)
      void this.report(failure.appId, failure.deployId, failure.at, null, errorOf(failure));
  }

  /**
   * Takes an error that the Worker of an app's release has told of. Resolves when its places were looked up, or it was
   * dropped; never rejects.
   */
  report(
    appId: string,
    release: string | null,
    at: number,
    traceId: string | null,
    error: ReportedError,
  ): Promise<void> {
    if (error.untold > 0) this.#drop(appId, error.untold);
    const queue = this.#queues.get(appId) ?? { waiting: 0, last: Promise.resolve() };
    if (queue.waiting >= WAITING) {
      this.#drop(appId, 1);
      return Promise.resolve();
    }
    this.#queues.set(appId, queue);
    queue.waiting++;
    queue.last = queue.last
      .then(async () => {
        this.#pending.push(await this.#occurrence(appId, release, at, traceId, error));
        this.#writeSoon();
      })
      .finally(() => {
        if (--queue.waiting === 0 && this.#queues.get(appId) === queue) this.#queues.delete(appId);
      });
    return queue.last;
  }

  flush(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#pending.length + this.#untold.size === 0) return;
    const pending = this.#pending;
    const untold = this.#untold;
    const changed = new Map<number, GroupRow>();
    this.#queries.transaction(() => {
      for (const each of pending) this.#add(each, changed);
      for (const [appId, count] of untold) this.#addUntold(appId, count, changed);
      for (const group of changed.values()) this.#queries.update(group);
    });
    this.#pending = [];
    this.#untold = new Map();
    for (const group of changed.values()) this.#show(group, group.status);
    this.#tell([...changed.values()]);
  }

  prune(now: number): boolean {
    const removed = this.#queries.removeBefore(now - this.#retentionMs, PIECE);
    if (removed === PIECE) return true;
    if (this.#queries.countAll() <= ALL_GROUPS) return false;
    return this.#queries.removeBefore(now, PIECE) > 0;
  }

  forget(appId: string): boolean {
    this.#listeners.end(appId);
    this.#pending = this.#pending.filter((each) => each.appId !== appId);
    this.#untold.delete(appId);
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
    const listener = new ErrorListener(follow, push);
    if (follow.after !== null) {
      for (const group of this.#queries.changedAfter(appId, follow.after, follow.status, MISSED))
        listener.take(group.change, this.#shown(group));
    }
    return this.#listeners.add(appId, listener);
  }

  async #occurrence(
    appId: string,
    release: string | null,
    at: number,
    traceId: string | null,
    error: ReportedError,
  ): Promise<Occurrence> {
    const { id, type: kind, message, stack, mechanism, handler, method, path } = error;
    const known = stack === null ? null : await this.#stacks.find(appId, release, stack);
    return {
      appId,
      at,
      release,
      id,
      kind,
      message,
      fingerprint: fingerprintOf(kind, message, known?.frames ?? []),
      stack: known?.text ?? null,
      place: known?.place ?? null,
      mechanism: mechanism ?? 'uncaught',
      handler,
      method,
      path,
      trace_id: traceId,
    };
  }

  #drop(appId: string, count: number): void {
    this.dropped.errors += count;
    this.#untold.set(appId, (this.#untold.get(appId) ?? 0) + count);
    this.#writeSoon();
  }

  #writeSoon(): void {
    this.#timer ??= setTimeout(() => this.#write(), WRITE_MS);
  }

  /** A failure is tried again with what comes next. */
  #write(): void {
    try {
      this.flush();
    } catch {
      // The thread's own turn comes, and says so.
      if (this.#pending.length > WAITING) {
        this.dropped.errors += this.#pending.length;
        this.#pending = [];
      }
    }
  }

  /** Counts an occurrence in its group. `changed`: groups that are to be written and shown. */
  #add(each: Occurrence, changed: Map<number, GroupRow>): void {
    const again = each.id === null ? undefined : this.#recent.get(`${each.appId} ${each.id}`);
    if (again !== undefined && this.#join(again.occurrence, each)) return;
    const group = this.#group(each, changed);
    const { message, place, mechanism, handler, method, path, trace_id, stack, at, release } = each;
    const circumstances = { message, place, mechanism, handler, method, path, trace_id };
    const shown = group.fingerprint === OTHER.fingerprint ? { trace_id } : circumstances;
    const isNewer = release !== null && release > (group.resolved_release ?? '');
    const regressed = group.status === 'resolved' && isNewer;
    changed.set(group.id, {
      ...group,
      ...shown,
      count: group.count + 1,
      last_seen_at: Math.max(group.last_seen_at, at),
      last_release: release !== null && release > (group.last_release ?? '') ? release : group.last_release,
      change: this.#nextChange(),
      ...(regressed && { status: 'open' as const, regressed_at: at }),
    });
    const occurrence = this.#queries.addOccurrence(
      group.id,
      { ...circumstances, stack, at, release },
      OCCURRENCES,
    );
    const hour = Math.floor(at / HOUR_MS);
    this.#queries.addHour(group.id, hour, 1, hour - HOURS);
    if (each.id !== null) this.#remember(`${each.appId} ${each.id}`, { group: group.id, occurrence });
  }

  /** Adds what is known better when an error is told again. @returns whether it was there */
  #join(occurrence: number, { mechanism, method, path, trace_id }: Occurrence): boolean {
    const row = this.#queries.occurrence(occurrence);
    if (row === undefined) return false;
    // Who tells later is further out: the request that all began with.
    const request = method === null ? {} : { method, path, trace_id };
    const better = row.mechanism === 'console' ? { mechanism } : {};
    this.#queries.updateOccurrence({ ...row, ...request, ...better });
    return true;
  }

  #addUntold(appId: string, count: number, changed: Map<number, GroupRow>): void {
    const at = Date.now();
    const group =
      this.#find(appId, OTHER.fingerprint, changed) ?? this.#newGroup({ appId, at, release: null, ...OTHER });
    const change = this.#nextChange();
    changed.set(group.id, { ...group, count: group.count + count, last_seen_at: at, change });
    const hour = Math.floor(at / HOUR_MS);
    this.#queries.addHour(group.id, hour, count, hour - HOURS);
  }

  #group(each: Occurrence, changed: Map<number, GroupRow>): GroupRow {
    const { appId, at, release, mechanism } = each;
    const found = this.#find(appId, each.fingerprint, changed);
    if (found !== undefined) return found;
    if (this.#queries.count(appId) < APP_GROUPS || this.#makeRoom(appId, changed))
      return this.#newGroup(each);
    return (
      this.#find(appId, OTHER.fingerprint, changed) ??
      this.#newGroup({ appId, at, release, ...OTHER, mechanism })
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
      change: this.#nextChange(),
    };
    return { id: this.#queries.insert(row), ...row };
  }

  #find(appId: string, fingerprint: string, changed: Map<number, GroupRow>): GroupRow | undefined {
    const found = this.#queries.find(appId, fingerprint);
    return found && (changed.get(found.id) ?? found);
  }

  /** Gives up the group that was not seen for the longest time, unless all were seen just now. */
  #makeRoom(appId: string, changed: Map<number, GroupRow>): boolean {
    const oldest = this.#queries.oldest(appId);
    if (oldest === undefined || changed.has(oldest.id)) return false;
    if (oldest.last_seen_at > Date.now() - SPARED_MS) return false;
    this.#queries.remove(oldest.id);
    return true;
  }

  #remember(id: string, place: { group: number; occurrence: number }): void {
    this.#recent.set(id, place);
    if (this.#recent.size > REMEMBERED) this.#recent.delete(this.#recent.keys().next().value!);
  }

  #nextChange(): number {
    this.#lastChange = Math.max(this.#lastChange + 1, Date.now() * CHANGES_PER_MS);
    return this.#lastChange;
  }

  #list({ appId, status, limit, afterAt, afterId }: Asks['errors']['params']): Asks['errors']['answer'] {
    this.flush();
    const after = afterAt === undefined || afterId === undefined ? null : { at: afterAt, id: afterId };
    const rows = this.#queries.list(appId, status, after, limit + 1);
    const last = rows.length > limit ? rows[limit - 1]! : null;
    return {
      items: rows.slice(0, limit).map((row) => this.#shown(row)),
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
    return { ...this.#shown(group), occurrences };
  }

  async #linesAround(appId: string, at: number, traceId: string) {
    const since = at - LINES_BEFORE_MS;
    const { items } = await this.#logsOf({ appId, limit: LINES, since, until: at + LINES_AFTER_MS, traceId });
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
      change: this.#nextChange(),
    };
    this.#queries.update(changed);
    this.#show(changed, group.status);
    return this.#shown(changed);
  }

  /** Tells of open groups that have an error more: of each now and then. */
  #tell(groups: GroupRow[]): void {
    const now = Date.now();
    const due = groups.filter(
      ({ id, status }) => status === 'open' && now - (this.#toldAt.get(id) ?? 0) >= TELL_EVERY_MS,
    );
    if (due.length === 0) return;
    if (this.#toldAt.size > TOLD) this.#toldAt.clear();
    for (const { id } of due) this.#toldAt.set(id, now);
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

  /** Shows a group to those who follow the status that it has, or had. */
  #show(group: GroupRow, before: GroupStatus): void {
    const listeners = [...(this.#listeners.of(group.app_id) ?? [])].filter(
      ({ status }) => status === group.status || status === before,
    );
    if (listeners.length === 0) return;
    const shown = this.#shown(group);
    for (const listener of listeners) listener.take(group.change, shown);
  }

  #shown(row: GroupRow): GroupedError {
    const hour = Math.floor(Date.now() / HOUR_MS);
    const sparkline = Array.from({ length: HOURS }, () => 0);
    for (const { hour: of, count } of this.#queries.hours(row.id, hour - HOURS)) {
      const index = of - (hour - HOURS) - 1;
      if (index < HOURS) sparkline[index] = count;
    }
    const { fingerprint, kind, message, place, mechanism, handler, method, path, trace_id } = row;
    return {
      fingerprint,
      kind,
      message,
      place,
      mechanism,
      handler,
      method,
      path,
      trace_id,
      count: row.count,
      status: row.status,
      regressed_at: row.regressed_at === null ? null : new Date(row.regressed_at).toISOString(),
      first_seen_at: new Date(row.first_seen_at).toISOString(),
      last_seen_at: new Date(row.last_seen_at).toISOString(),
      first_release: row.first_release,
      last_release: row.last_release,
      sparkline,
    };
  }
}

/** The end of a process, or a start that failed, as an error. What does not load says so in workerd's words. */
function errorOf({ mechanism, reason }: Failure): ReportedError {
  const [words = ''] = reason.slice(0, MESSAGE_LENGTH).split('; its last lines:');
  const [, type, thrown] = /Uncaught (\w+): (.*)/s.exec(words) ?? [];
  const places = [...words.matchAll(PLACE)].map(([, place]) => `    at ${place}`);
  // A process that the host has killed is known by what it was killed for.
  const message = (thrown ?? words).split(PLACE)[0]!.replace(/: workerd was ended by SIGKILL$/, '');
  return {
    id: null,
    type: type ?? (mechanism === 'crash' ? 'Crash' : 'LoadError'),
    message,
    stack: places.length === 0 ? null : [`${type}: ${message}`, ...places].join('\n'),
    mechanism,
    handler: null,
    method: null,
    path: null,
    untold: 0,
  };
}
