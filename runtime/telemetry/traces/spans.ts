// Stores slow and failed requests individually, with limits for each second and in total.
import type { Database } from 'better-sqlite3';
import type { Result } from '../../../handlers/contract/index.ts';
import {
  SPAN_MIGRATIONS,
  type SpanQueries,
  type SpanRow,
  spanQueries,
} from '../../../sqlite/telemetry/spans.ts';
import type { Immediate, Part, Taken } from '../part.ts';
import type { ThreadOptions } from '../protocol.ts';
import { ByteBounds, type ByteBoundsOptions } from '../store/byte-bounds.ts';
import type { Store } from '../store/store.ts';
import { type CountedRequest, isError } from './request-lines.ts';

/** A request of this duration or longer is slow, in ms. */
const SLOW_MS = 1_000;
/** Maximum spans of an app between two writes, about a second apart. Spans over the limit are dropped and counted. */
const AT_ONCE_MAX = 20;
/** Limit of stored spans of an app, about 400 bytes each. */
const KEPT_MAX = 2_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Limit of the database's pages in use, in bytes. The app with the most bytes loses its oldest rows. */
const BYTES_MAX = 256 * 1024 * 1024;
/** Rows in one batch of removals. */
const PIECE = 500;

export class Spans implements Part {
  readonly name = 'spans';
  readonly dropped = { spans: 0 };
  readonly answers: Immediate<'spans'>;
  readonly #database: Database;
  readonly #bounds: ByteBounds;
  readonly #rows: SpanQueries;
  readonly #retentionMs: number;
  readonly #unwritten = new Map<string, CountedRequest[]>();

  constructor(
    store: Store,
    { retentionDays, ...bounds }: Pick<ThreadOptions, 'retentionDays'> & ByteBoundsOptions,
  ) {
    this.#database = store.open('spans', SPAN_MIGRATIONS);
    this.#rows = spanQueries(this.#database);
    this.#bounds = new ByteBounds(this.#database, this.#rows, { allBytes: BYTES_MAX, ...bounds }, (rows) => {
      this.dropped.spans += rows;
    });
    this.#retentionMs = retentionDays * DAY_MS;
    this.answers = {
      spans: ({ appId, hours, limit, before }) => {
        this.flush();
        const from = Date.now() - hours * HOUR_MS;
        const rows = this.#rows.newest(appId, from, before ?? Number.MAX_SAFE_INTEGER, limit + 1);
        const page = rows.slice(0, limit);
        return { items: page.map(shownSpan), next: rows.length > limit ? page.at(-1)!.id : null };
      },
    };
  }

  take({ requests }: Taken): void {
    for (const request of requests) {
      if (!isSlow(request) && !isError(request)) continue;
      const spans = this.#unwritten.get(request.appId) ?? [];
      this.#unwritten.set(request.appId, spans);
      if (spans.length < AT_ONCE_MAX) spans.push(request);
      else this.dropped.spans++;
    }
  }

  flush(): void {
    this.#database.transaction(() => {
      for (const [appId, spans] of this.#unwritten) {
        for (const span of spans) this.#rows.add(rowOf(span));
        this.#rows.trim(appId, KEPT_MAX);
      }
    })();
    this.#unwritten.clear();
  }

  /** Returns the spans of a trace, oldest first. */
  ofTrace(appId: string, traceId: string, limit: number): SpanRow[] {
    this.flush();
    return this.#rows.ofTrace(appId, traceId, limit);
  }

  prune(now: number): boolean {
    return this.#rows.deleteBefore(now - this.#retentionMs, PIECE) + this.#bounds.removePiece() >= PIECE;
  }

  forget(appId: string): boolean {
    this.#unwritten.delete(appId);
    return this.#rows.deleteOf(appId, PIECE) === PIECE;
  }

  apps(): string[] {
    return this.#rows.apps();
  }
}

/** A WebSocket is never slow, because its duration depends on its user. */
function isSlow({ durationMs, upgraded }: CountedRequest): boolean {
  return durationMs >= SLOW_MS && !upgraded;
}

export function rowOf(request: CountedRequest): Omit<SpanRow, 'id'> {
  return {
    app_id: request.appId,
    started_at: request.endedAt - Math.round(request.durationMs),
    trace_id: request.traceId,
    span_id: request.spanId,
    parent_span_id: request.parentSpanId,
    method: request.method,
    path: request.path,
    status: request.status,
    refused: request.refused,
    duration_ms: request.durationMs,
    held_ms: request.heldMs,
    wake_ms: request.wakeMs,
    bytes_in: request.bytesIn,
    bytes_out: request.bytesOut,
    cell_start: request.cellStart,
    release: request.release,
  };
}

/** Returns a row as the API shows it. */
export function shownSpan({
  id: _,
  app_id: __,
  started_at,
  ...rest
}: SpanRow): Result<'spans.list'>['items'][number] {
  const name = `${rest.method} ${rest.path}`;
  return { kind: 'fleet.fetch', name, started_at: new Date(started_at).toISOString(), ...rest };
}
