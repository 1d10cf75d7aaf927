// Stores the calls that apps' events waited for, for a day and within limits. Returns the requests and calls of a trace.
import type { Database } from 'better-sqlite3';
import type { Call } from '../../../handlers/contract/telemetry/requests.ts';
import {
  CALL_MIGRATIONS,
  type CallQueries,
  type CallsRow,
  callQueries,
  ROW_BYTES,
} from '../../../sqlite/telemetry/calls.ts';
import { bytesInUse } from '../../../sqlite/telemetry/database.ts';
import type { ReportedCalls } from '../logs/reported-calls.ts';
import type { Immediate, Part } from '../part.ts';
import type { Asks } from '../protocol.ts';
import type { Store } from '../store/store.ts';
import type { Requests } from './requests.ts';
import { type Spans, shownSpan } from './spans.ts';

/** Maximum events of an app between two writes, about a second apart. Events over the limit are dropped and counted. */
const AT_ONCE_MAX = 200;
/** Approximate limit of bytes that wait while writes fail. Events over the limit are dropped and counted. */
const UNWRITTEN_BYTES = 8 * 1024 * 1024;
/** Limit of the stored events of an app, in bytes. */
const APP_BYTES = 16 * 1024 * 1024;
/** Over the limit, an app's events are removed until this many bytes are left. */
const APP_BYTES_LEFT = APP_BYTES * 0.75;
const KEPT_MS = 24 * 3_600_000;
/** Limit of the database's pages in use, in bytes. */
const BYTES_MAX = 256 * 1024 * 1024;
/** Rows in one batch of removals. */
const PIECE = 500;
/** Maximum requests of a trace that are returned. */
const TRACE_REQUESTS = 100;
/** Maximum events of a trace whose calls are returned. */
const TRACE_EVENTS = 100;
/** Maximum calls of a trace that are returned. */
const TRACE_CALLS = 500;

export class Calls implements Part {
  readonly name = 'calls';
  readonly dropped = { calls: 0 };
  readonly answers: Immediate<'trace'>;
  readonly #database: Database;
  readonly #rows: CallQueries;
  readonly #unwritten = new Map<string, Omit<CallsRow, 'id'>[]>();
  #unwrittenBytes = 0;
  /** Upper bound of the bytes of each app's stored events. */
  readonly #bytes = new Map<string, number>();

  constructor(store: Store, requests: Requests, spans: Spans) {
    this.#database = store.open('calls', CALL_MIGRATIONS);
    this.#rows = callQueries(this.#database);
    this.answers = {
      trace: ({ appId, traceId }) => {
        const found = requests.ofTrace(appId, traceId, TRACE_REQUESTS).map(({ skipped: _, ...row }) => row);
        const rows = found.length > 0 ? found : spans.ofTrace(appId, traceId, TRACE_REQUESTS);
        return { spans: rows.map(shownSpan), calls: this.#callsOf(appId, traceId) };
      },
    };
  }

  /** Takes the calls of one event. @param at ms since 1970 */
  report(appId: string, at: number, traceId: string, { handler, calls }: ReportedCalls): void {
    const rows = this.#unwritten.get(appId) ?? [];
    this.#unwritten.set(appId, rows);
    if (rows.length >= AT_ONCE_MAX || this.#unwrittenBytes > UNWRITTEN_BYTES) {
      this.dropped.calls++;
      return;
    }
    const row = { app_id: appId, at, trace_id: traceId, calls: JSON.stringify({ handler, calls }) };
    rows.push(row);
    this.#unwrittenBytes += bytesOf([row]);
  }

  flush(): void {
    if (this.#unwritten.size === 0) return;
    this.#database.transaction(() => {
      for (const [appId, rows] of this.#unwritten) {
        for (const row of rows) this.#rows.add(row);
        this.#trimBytes(appId, bytesOf(rows));
      }
    })();
    this.#unwritten.clear();
    this.#unwrittenBytes = 0;
  }

  /** Removes an app's oldest events over its limit. Otherwise one app with long events would evict the events of others. */
  #trimBytes(appId: string, added: number): void {
    const bytes = (this.#bytes.get(appId) ?? APP_BYTES) + added;
    if (bytes > APP_BYTES) this.#rows.trimBytes(appId, APP_BYTES_LEFT);
    this.#bytes.set(appId, bytes > APP_BYTES ? APP_BYTES_LEFT : bytes);
  }

  prune(now: number): boolean {
    return this.#rows.deleteBefore(now - KEPT_MS, PIECE) + this.#removeTooMuch() >= PIECE;
  }

  /** Removes the oldest rows when the file is too large. @returns how many */
  #removeTooMuch(): number {
    if (bytesInUse(this.#database) < BYTES_MAX) return 0;
    const removed = this.#rows.deleteBefore(Number.MAX_SAFE_INTEGER, PIECE);
    this.dropped.calls += removed;
    return removed;
  }

  forget(appId: string): boolean {
    this.#unwrittenBytes -= bytesOf(this.#unwritten.get(appId) ?? []);
    this.#unwritten.delete(appId);
    this.#bytes.delete(appId);
    return this.#rows.deleteOf(appId, PIECE) === PIECE;
  }

  apps(): string[] {
    return this.#rows.apps();
  }

  #callsOf(appId: string, traceId: string): Asks['trace']['answer']['calls'] {
    this.flush();
    const calls = this.#rows.ofTrace(appId, traceId, TRACE_EVENTS).flatMap(({ calls: json }): Call[] => {
      const { handler, calls } = JSON.parse(json) as ReportedCalls;
      return calls.map(({ startedAt, durationMs, ...call }) => ({
        ...call,
        handler,
        started_at: new Date(startedAt).toISOString(),
        duration_ms: durationMs,
      }));
    });
    return calls.sort((a, b) => a.started_at.localeCompare(b.started_at)).slice(0, TRACE_CALLS);
  }
}

function bytesOf(rows: readonly Pick<CallsRow, 'calls'>[]): number {
  return rows.reduce((sum, { calls }) => sum + ROW_BYTES + Buffer.byteLength(calls), 0);
}
