// Stores the logs of apps for a day, within limits; searches and follows them.
import { LOGS_MIGRATIONS, type LogQueries, type LogRow, logQueries } from '../../../sqlite/telemetry/logs.ts';
import type { SourceStacks } from '../errors/source-stacks.ts';
import { Listeners } from '../listeners.ts';
import type { Answers, Part } from '../part.ts';
import type { Batch, FollowKind, StreamPiece } from '../protocol.ts';
import { AppAllowances } from '../store/app-allowances.ts';
import { ByteBounds, type ByteBoundsOptions } from '../store/byte-bounds.ts';
import { maxBy } from '../store/max-by.ts';
import type { Store } from '../store/store.ts';
import { LogFilter } from './log-filter.ts';
import { type LogRecord, shownText, withFields } from './log-lines.ts';
import { type LogFollow, LogListener } from './log-listener.ts';
import { idAt, lengthOf, lengthOfAll, lineOf, rowOf } from './log-rows.ts';
import { searchLogs } from './log-search.ts';
import { LogStacks } from './log-stacks.ts';
import { OutputReader, type OutputTaker } from './output-reader.ts';

/** Rate limit of an app's stored lines, per second. */
export const LINES_PER_S = 2_000;
/** Largest burst: what the rate limit allows in this many seconds. */
const SAVED_S = 4;
/** Retention of lines, in ms. */
const KEPT_MS = 24 * 3_600_000;
/** Queued lines are written at once when they have more characters than this. */
const PENDING_LENGTH = 4 * 1024 * 1024;
/** Maximum characters queued while writes fail. */
const PENDING_MAX = 16 * 1024 * 1024;
/** Lines in one batch of removals. */
const PRUNED_LINES = 2_000;
/** Maximum missed lines sent to a listener that reconnects. */
const MISSED_LINES = 2_000;
/** Approximate maximum characters of all missed lines sent to a listener that reconnects. */
const MISSED_LENGTH = 1024 * 1024;

export interface LogsOptions extends ByteBoundsOptions {
  /** Value of `RUNNER_FLEET_LOG`. */
  fleetLog: string;
  stacks: SourceStacks;
  /** Called with each record that is queued to be stored. */
  onKept?: (appId: string, record: LogRecord) => void;
}

export class Logs implements Part {
  readonly name = 'logs';
  readonly answers: Answers = {
    logs: (params) => {
      this.flush();
      return searchLogs(this.#queries, params);
    },
  };
  readonly dropped = { log_lines: 0 };
  readonly #queries: LogQueries;
  readonly #bounds: ByteBounds;
  readonly #onKept: LogsOptions['onKept'];
  readonly #output: OutputReader;
  readonly #stacks: LogStacks;
  readonly #allowances = new AppAllowances(LINES_PER_S, SAVED_S);
  /** By app, the number of dropped lines that its log does not mention yet. */
  #unlogged = new Map<string, number>();
  /** Unwritten lines, by app. */
  readonly #pending = new Map<string, LogRow[]>();
  #pendingLength = 0;
  readonly #listeners = new Listeners<LogListener>();
  #lastId: number;

  /** @param reports called with the reports that Workers print among their lines */
  constructor(
    store: Store,
    { fleetLog, stacks, onKept, ...bounds }: LogsOptions,
    reports: Pick<OutputTaker, 'onError' | 'onRun' | 'onPoint' | 'onCalls' | 'onReport'>,
  ) {
    const database = store.open('logs', LOGS_MIGRATIONS);
    this.#queries = logQueries(database);
    this.#bounds = new ByteBounds(database, this.#queries, bounds, (lines) => {
      this.dropped.log_lines += lines;
    });
    this.#onKept = onKept;
    this.#lastId = this.#queries.lastId();
    this.#stacks = new LogStacks(stacks, (appId, record) => this.#add(appId, record));
    const filter = LogFilter.parse(fleetLog);
    this.#output = new OutputReader({
      ...reports,
      onRecord: (appId, record) => {
        if (filter.passes(record.source, record.level)) this.#stacks.take(appId, record);
      },
      onLost: (appId, lines) => this.#drop(appId, lines),
    });
  }

  take({ output, said }: Pick<Batch, 'output' | 'said'>): void {
    for (const piece of output) this.#output.read(piece);
    for (const { appId, text, deployId: release, ...rest } of said)
      this.#stacks.take(appId, { ...rest, text: shownText(text), fields: null, traceId: null, release });
    if (this.#pendingLength > PENDING_LENGTH) this.flush();
  }

  flush(): void {
    this.#logDropped();
    if (this.#pending.size === 0) return;
    try {
      this.#queries.transaction(() => {
        let written = 0;
        for (const [appId, rows] of this.#pending) {
          this.#queries.append(appId, rows);
          written += rows.length;
        }
        this.#bounds.makeRoom(written);
      });
    } catch (error) {
      while (this.#pendingLength > PENDING_MAX) this.#dropPending();
      throw error;
    }
    this.#pending.clear();
    this.#pendingLength = 0;
  }

  async close(): Promise<void> {
    this.#stacks.end();
    this.flush();
  }

  prune(now: number): boolean {
    if (this.#bounds.removePiece() > 0) return true;
    for (const { app_id } of this.#queries.sizes()) {
      if (this.#queries.removeOldest(app_id, PRUNED_LINES, { before: idAt(now - KEPT_MS) }) > 0) return true;
      if (this.#queries.ends(app_id) === null) this.#queries.removeApp(app_id);
    }
    return false;
  }

  forget(appId: string): boolean {
    this.#listeners.end(appId);
    this.#allowances.forget(appId);
    this.#unlogged.delete(appId);
    this.#output.forget(appId);
    this.#stacks.forget(appId);
    this.#pendingLength -= lengthOfAll(this.#pending.get(appId) ?? []);
    this.#pending.delete(appId);
    if (this.#queries.removeOldest(appId, PRUNED_LINES) > 0) return true;
    this.#queries.removeApp(appId);
    return false;
  }

  apps(): string[] {
    return this.#queries.sizes().map(({ app_id }) => app_id);
  }

  /** Pushes server-sent events; see `log-listener.ts`. */
  follow(
    appId: string,
    kind: FollowKind,
    params: unknown,
    push: (pieces: StreamPiece[]) => void,
  ): (() => void) | undefined {
    if (kind !== 'logs') return undefined;
    const follow = params as LogFollow;
    const listener = new LogListener(follow, this.#listeners.sender(appId, push));
    if (follow.after !== null) this.#sendMissed(appId, follow.after, listener);
    return this.#listeners.add(appId, listener);
  }

  /** Stores a record and sends it to listeners, within the app's rate limit. */
  #add(appId: string, record: LogRecord): void {
    // Fields are parsed only for records that are stored.
    if (this.#allowances.takes(appId)) this.#keep(appId, withFields(record));
    else this.#drop(appId, 1);
  }

  #keep(appId: string, record: LogRecord): void {
    this.#onKept?.(appId, record);
    this.#lastId = Math.max(this.#lastId + 1, idAt(Date.now()));
    const row = rowOf(this.#lastId, record);
    const rows = this.#pending.get(appId);
    if (rows === undefined) this.#pending.set(appId, [row]);
    else rows.push(row);
    this.#pendingLength += lengthOf(row);
    const listeners = this.#listeners.of(appId);
    if (listeners === null) return;
    const line = lineOf(row);
    for (const listener of listeners) listener.take(line, record.tail);
  }

  #drop(appId: string, lines: number): void {
    this.dropped.log_lines += lines;
    this.#unlogged.set(appId, (this.#unlogged.get(appId) ?? 0) + lines);
  }

  /** Writes the number of an app's dropped lines into the app's log. */
  #logDropped(): void {
    this.#allowances.tidy();
    const unlogged = this.#unlogged;
    this.#unlogged = new Map();
    for (const [appId, dropped] of unlogged) {
      const text = `${dropped} lines were dropped: at most ${LINES_PER_S} lines and 256 KiB a second of an app are stored`;
      const said = { level: 'warn', source: 'supervisor', text, fields: null } as const;
      this.#keep(appId, { at: Date.now(), ...said, traceId: null, release: null });
    }
  }

  /** Drops all unwritten lines of the app with the most characters. */
  #dropPending(): void {
    const [appId, rows] = maxBy(this.#pending, ([, waiting]) => lengthOfAll(waiting))!;
    this.#pending.delete(appId);
    this.#pendingLength -= lengthOfAll(rows);
    this.#drop(appId, rows.length);
  }

  /** Sends missed lines to a listener that reconnects, or reports a gap. */
  #sendMissed(appId: string, after: number, listener: LogListener): void {
    this.flush();
    const first = this.#queries.ends(appId)?.first ?? Number.POSITIVE_INFINITY;
    const rows = this.#queries.after(appId, after, MISSED_LINES + 1);
    if (after < first || rows.length > MISSED_LINES || lengthOfAll(rows) > MISSED_LENGTH) listener.reset();
    else for (const row of rows) listener.take(lineOf(row));
  }
}
