// Rows of `requests`: a sample of each app's requests.
import type { Database } from 'better-sqlite3';
import { sampleQueries, sizesMigration } from './samples.ts';
import type { SpanRow } from './spans.ts';

/** One entry for each schema version of `requests.sqlite`, in order. Never change a released one: add the next. */
export const REQUEST_MIGRATIONS = [
  `
  CREATE TABLE requests (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    app_id TEXT NOT NULL,
    started_at INTEGER NOT NULL,            -- in ms since 1970
    trace_id TEXT NOT NULL,
    span_id TEXT NOT NULL,
    parent_span_id TEXT,
    method TEXT NOT NULL,
    path TEXT NOT NULL,                     -- without the query
    status INTEGER NOT NULL,
    refused TEXT,                           -- why the gateway answered by itself
    duration_ms REAL NOT NULL,
    held_ms INTEGER NOT NULL,
    wake_ms INTEGER NOT NULL,
    bytes_in INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL,
    cell_start TEXT,                        -- 'warm' or 'cold'; null when it reached no process
    release TEXT,
    skipped INTEGER NOT NULL                -- requests before it that were left out
  ) STRICT;
  CREATE INDEX requests_of_app ON requests (app_id, id);
  CREATE INDEX requests_of_trace ON requests (trace_id);
  `,
  sizesMigration('requests'),
];

export interface RequestRow extends SpanRow {
  skipped: number;
}

/** A filter for requests; `null` matches all. */
export interface WantedRequests {
  appId: string;
  /** Lower bound of ids, inclusive. */
  first: number;
  /** Upper bound of ids, exclusive. */
  before: number;
  /** Earliest start of a request, in ms since 1970. */
  from: number;
  method: string | null;
  /** Lower bound of the status, inclusive. */
  leastStatus: number;
  /** Upper bound of the status, inclusive. */
  mostStatus: number;
  /** A part of the path, in lower case. */
  path: string | null;
  /** Minimum duration, in ms. */
  slowerThan: number;
  cellStart: 'warm' | 'cold' | null;
  limit: number;
}

export function requestQueries(database: Database) {
  const add = database.prepare<Omit<RequestRow, 'id'>>(
    `INSERT INTO requests (app_id, started_at, trace_id, span_id, parent_span_id, method, path, status, refused, duration_ms,
       held_ms, wake_ms, bytes_in, bytes_out, cell_start, release, skipped)
     VALUES (@app_id, @started_at, @trace_id, @span_id, @parent_span_id, @method, @path, @status, @refused, @duration_ms,
       @held_ms, @wake_ms, @bytes_in, @bytes_out, @cell_start, @release, @skipped)`,
  );
  const newest = database.prepare<WantedRequests, RequestRow>(
    `SELECT * FROM requests WHERE app_id = @appId AND id >= @first AND id < @before AND started_at >= @from
       AND (@method IS NULL OR method = @method) AND status BETWEEN @leastStatus AND @mostStatus
       AND (@path IS NULL OR instr(lower(path), @path) > 0) AND duration_ms >= @slowerThan
       AND (@cellStart IS NULL OR cell_start = @cellStart)
     ORDER BY id DESC LIMIT @limit`,
  );
  const further = database.prepare<[string, number, number], { id: number }>(
    'SELECT id FROM requests WHERE app_id = ? AND id < ? ORDER BY id DESC LIMIT 1 OFFSET ?',
  );
  const ofTrace = database.prepare<[string, string, number], RequestRow>(
    'SELECT * FROM requests WHERE trace_id = ? AND app_id = ? ORDER BY id LIMIT ?',
  );

  return {
    add: (row: Omit<RequestRow, 'id'>): void => {
      add.run(row);
    },
    newest: (wanted: WantedRequests): RequestRow[] => newest.all(wanted),
    /** Returns the id of an app's request that is `count` requests before an id; null when there are fewer. */
    further: (appId: string, before: number, count: number): number | null =>
      further.get(appId, before, count - 1)?.id ?? null,
    /** Returns an app's requests of a trace, oldest first. */
    ofTrace: (appId: string, traceId: string, limit: number): RequestRow[] =>
      ofTrace.all(traceId, appId, limit),
    ...sampleQueries(database, 'requests'),
  };
}
export type RequestQueries = ReturnType<typeof requestQueries>;
