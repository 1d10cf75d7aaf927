// The logs of apps: what processes print is read line by line, kept for a day within bounds, searched and followed.
import { LOGS_MIGRATIONS, type LogQueries, type LogRow, logQueries } from '../../sqlite/telemetry/logs.ts';
import { LineReader } from '../machine/lines.ts';
import { Listeners } from './listeners.ts';
import { LINES_PER_S, LogBudget } from './log-budget.ts';
import { LogFilter } from './log-filter.ts';
import {
  type LogRecord,
  type ReportedError,
  type ReportedPoint,
  type ReportedRun,
  readLine,
  shownText,
  withFields,
} from './log-lines.ts';
import { type LogFollow, LogListener } from './log-listener.ts';
import { idAt, lengthOf, lineOf, rowOf } from './log-rows.ts';
import { searchLogs } from './log-search.ts';
import { LogStacks } from './log-stacks.ts';
import type { Answers, Part } from './part.ts';
import type { Batch, FollowKind, OutputPiece } from './protocol.ts';
import type { SourceStacks } from './source-stacks.ts';
import type { Store } from './store.ts';
import { UncaughtLines, uncaughtError } from './uncaught-lines.ts';

/** How long lines are kept, in ms. */
const KEPT_MS = 24 * 3_600_000;
/** Bytes of lines that are kept of one app, and of all together: then the app that has most loses its oldest. */
const APP_BYTES = 64 * 1024 * 1024;
const ALL_BYTES = 1024 * 1024 * 1024;
/** Lines that wait to be written are written at once when there are so many characters of them. */
const PENDING_LENGTH = 4 * 1024 * 1024;
/** While they cannot be written, no more than so many characters wait. */
const PENDING_MAX = 16 * 1024 * 1024;
/** Lines that are removed at a time. */
const PRUNED_LINES = 2_000;
/** Lines that a listener who comes back is sent of what it has missed; and their characters, about. */
const MISSED_LINES = 2_000;
const MISSED_LENGTH = 512 * 1024;
interface Pipe {
  reader: LineReader;
  lines: string[];
}

export interface LogsOptions {
  /** `RUNNER_FLEET_LOG`. */
  fleetLog: string;
  stacks: SourceStacks;
  /** Is told of each record that is kept. */
  onKept?: (appId: string, record: LogRecord) => void;
  /** Is told of each run of a cron that has ended. */
  onRun?: (appId: string, traceId: string | null, run: ReportedRun) => void;
  /** Is told of each data point. */
  onPoint?: (appId: string, at: number, point: ReportedPoint) => void;
  /** Bounds, for tests. */
  appBytes?: number;
  allBytes?: number;
}

/** Takes an error that an app's process of a release has told of. */
export type OnError = (
  appId: string,
  release: string,
  at: number,
  traceId: string | null,
  error: ReportedError,
) => void;

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
  readonly #filter: LogFilter;
  readonly #onKept: LogsOptions['onKept'];
  readonly #onRun: LogsOptions['onRun'];
  readonly #onPoint: LogsOptions['onPoint'];
  readonly #appBytes: number;
  readonly #allBytes: number;
  readonly #pipes = new Map<number, Pipe>();
  readonly #budgets = new Map<string, LogBudget>();
  /** Lines that are not written yet, by app. */
  readonly #pending = new Map<string, LogRow[]>();
  #pendingLength = 0;
  readonly #listeners = new Listeners<LogListener>();
  #lastId: number;
  readonly #onError: OnError;
  readonly #uncaught = new UncaughtLines();
  readonly #stacks: LogStacks;

  constructor(
    store: Store,
    { fleetLog, stacks, onKept, onRun, onPoint, appBytes = APP_BYTES, allBytes = ALL_BYTES }: LogsOptions,
    onError: OnError = () => {},
  ) {
    this.#onError = onError;
    this.#queries = logQueries(store.open('logs', LOGS_MIGRATIONS));
    this.#filter = LogFilter.parse(fleetLog);
    this.#onKept = onKept;
    this.#onRun = onRun;
    this.#onPoint = onPoint;
    this.#appBytes = appBytes;
    this.#allBytes = allBytes;
    this.#lastId = this.#queries.lastId();
    this.#stacks = new LogStacks(stacks, (appId, record) => this.#add(appId, record));
  }

  take({ output, said }: Pick<Batch, 'output' | 'said'>): void {
    for (const piece of output) this.#read(piece);
    for (const { appId, at, level, source, text, deployId } of said) {
      const record = {
        at,
        level,
        source,
        text: shownText(text),
        fields: null,
        traceId: null,
        release: deployId,
      };
      this.#stacks.take(appId, record);
    }
    if (this.#pendingLength > PENDING_LENGTH) this.flush();
  }

  flush(): void {
    this.#tellDropped();
    if (this.#pending.size === 0) return;
    try {
      this.#queries.transaction(() => {
        for (const [appId, rows] of this.#pending) this.#queries.append(appId, rows);
      });
    } catch (error) {
      if (this.#pendingLength > PENDING_MAX) this.#giveUpPending();
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
    const sizes = this.#queries.sizes().sort((a, b) => b.bytes - a.bytes);
    const all = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
    const [largest] = sizes;
    const bytes = Math.max((largest?.bytes ?? 0) - this.#appBytes, all - this.#allBytes);
    if (largest !== undefined && bytes > 0) {
      if (this.#queries.removeOldest(largest.app_id, PRUNED_LINES, { bytes }) > 0) return true;
    }
    for (const { app_id } of sizes) {
      if (this.#queries.removeOldest(app_id, PRUNED_LINES, { before: idAt(now - KEPT_MS) }) > 0) return true;
      if (this.#queries.ends(app_id) === null) this.#queries.removeApp(app_id);
    }
    return false;
  }

  forget(appId: string): boolean {
    this.#listeners.end(appId);
    this.#budgets.delete(appId);
    this.#stacks.forget(appId);
    this.#pendingLength -= lengthOf(this.#pending.get(appId) ?? []);
    this.#pending.delete(appId);
    if (this.#queries.removeOldest(appId, PRUNED_LINES) > 0) return true;
    this.#queries.removeApp(appId);
    return false;
  }

  apps(): string[] {
    return this.#queries.sizes().map(({ app_id }) => app_id);
  }

  /** Pushes texts of server-sent events; see `log-listener.ts`. */
  follow(
    appId: string,
    kind: FollowKind,
    params: unknown,
    push: (items: unknown[]) => void,
  ): (() => void) | undefined {
    if (kind !== 'logs') return undefined;
    const follow = params as LogFollow;
    const listener = new LogListener(follow, push);
    if (follow.after !== null) this.#sendMissed(appId, follow.after, listener);
    return this.#listeners.add(appId, listener);
  }

  #read({ appId, deployId, at, pipe, stream, bytes, dropped, isLast }: OutputPiece): void {
    let known = this.#pipes.get(pipe);
    if (known === undefined) {
      const lines: string[] = [];
      known = { lines, reader: new LineReader((line) => lines.push(line)) };
      this.#pipes.set(pipe, known);
    }
    const { reader, lines } = known;
    let lost = dropped ?? 0;
    if (dropped !== null) reader.skip();
    const wasSkipping = reader.isSkipping;
    reader.write(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    // The one whose end has come now began in what was dropped.
    if (wasSkipping && !reader.isSkipping) lost++;
    if (isLast) {
      reader.end();
      this.#pipes.delete(pipe);
    }
    if (lost > 0) this.#drop(appId, lost);
    for (const line of lines.splice(0)) {
      const { record, error, run, point } = readLine(line, stream, at);
      if (point !== null) {
        this.#onPoint?.(appId, record.at, point);
        continue;
      }
      if (run !== null) this.#onRun?.(appId, record.traceId, run);
      if (error !== null) {
        this.#uncaught.told(appId, error);
        this.#onError(appId, deployId, record.at, record.traceId, error);
      } else if (record.source === 'workerd') {
        if (this.#uncaught.repeats(appId, record.text)) continue;
        const uncaught = uncaughtError(record.text);
        if (uncaught !== null) this.#onError(appId, deployId, record.at, null, uncaught);
      }
      if (record.text === '' && record.fields === null) continue;
      if (this.#filter.passes(record.source, record.level))
        this.#stacks.take(appId, { ...record, release: deployId });
    }
  }

  /** Keeps a record and shows it to those who listen, if the app may have more. */
  #add(appId: string, record: LogRecord): void {
    if (!this.#budget(appId).takes(performance.now())) {
      this.dropped.log_lines++;
      return;
    }
    // Not before: of what is dropped nothing has to be known.
    this.#keep(appId, withFields(record));
  }

  #keep(appId: string, record: LogRecord): void {
    this.#onKept?.(appId, record);
    this.#lastId = Math.max(this.#lastId + 1, idAt(Date.now()));
    const row = rowOf(this.#lastId, record);
    const rows = this.#pending.get(appId);
    if (rows === undefined) this.#pending.set(appId, [row]);
    else rows.push(row);
    this.#pendingLength += row.text.length;
    const listeners = this.#listeners.of(appId);
    if (listeners === null) return;
    const line = lineOf(row);
    for (const listener of listeners) listener.take(line);
  }

  #budget(appId: string): LogBudget {
    let budget = this.#budgets.get(appId);
    if (budget === undefined) {
      budget = new LogBudget(performance.now());
      this.#budgets.set(appId, budget);
    }
    return budget;
  }

  #drop(appId: string, lines: number): void {
    this.dropped.log_lines += lines;
    this.#budget(appId).drop(lines);
  }

  /** Says in the log of each app how much of it is missing. */
  #tellDropped(): void {
    const now = performance.now();
    for (const [appId, budget] of this.#budgets) {
      const dropped = budget.takeDropped();
      if (dropped > 0) {
        const text = `${dropped} lines were dropped: of what an app prints, ${LINES_PER_S} lines and 256 KiB a second are kept`;
        const source = 'supervisor';
        this.#keep(appId, {
          at: Date.now(),
          level: 'warn',
          source,
          text,
          fields: null,
          traceId: null,
          release: null,
        });
      } else if (budget.isUnused(now)) this.#budgets.delete(appId);
    }
  }

  /** What cannot be written is dropped, of the app that has most first. */
  #giveUpPending(): void {
    const [most] = [...this.#pending].sort((a, b) => lengthOf(b[1]) - lengthOf(a[1]));
    if (most === undefined) return;
    const [appId, rows] = most;
    this.#pending.delete(appId);
    this.#pendingLength -= lengthOf(rows);
    this.#drop(appId, rows.length);
  }

  /** Sends a listener who comes back what it has missed, or says that something is missing. */
  #sendMissed(appId: string, after: number, listener: LogListener): void {
    this.flush();
    const first = this.#queries.ends(appId)?.first ?? Number.POSITIVE_INFINITY;
    const rows = this.#queries.after(appId, after, MISSED_LINES + 1);
    if (after < first || rows.length > MISSED_LINES || lengthOf(rows) > MISSED_LENGTH) listener.reset();
    else for (const row of rows) listener.take(lineOf(row));
  }
}
