// Rows of `spans`: requests that were slow or failed.
import type { Database } from 'better-sqlite3';
import { sampleQueries, sizesMigration } from './samples.ts';

/** One entry for each schema version of `spans.sqlite`, in order. Never change a released one: add the next. */
export const SPAN_MIGRATIONS = [
  `
  CREATE TABLE spans (
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
    release TEXT
  ) STRICT;
  CREATE INDEX spans_of_app ON spans (app_id, id);
  `,
  sizesMigration('spans'),
];

export interface SpanRow {
  id: number;
  app_id: string;
  started_at: number;
  trace_id: string;
  span_id: string;
  parent_span_id: string | null;
  method: string;
  path: string;
  status: number;
  refused: string | null;
  duration_ms: number;
  held_ms: number;
  wake_ms: number;
  bytes_in: number;
  bytes_out: number;
  cell_start: 'warm' | 'cold' | null;
  release: string | null;
}

export function spanQueries(database: Database) {
  const add = database.prepare<Omit<SpanRow, 'id'>>(
    `INSERT INTO spans (app_id, started_at, trace_id, span_id, parent_span_id, method, path, status, refused, duration_ms, held_ms,
       wake_ms, bytes_in, bytes_out, cell_start, release)
     VALUES (@app_id, @started_at, @trace_id, @span_id, @parent_span_id, @method, @path, @status, @refused, @duration_ms, @held_ms,
       @wake_ms, @bytes_in, @bytes_out, @cell_start, @release)`,
  );
  const newest = database.prepare<[string, number, number, number], SpanRow>(
    'SELECT * FROM spans WHERE app_id = ? AND id < ? AND started_at >= ? ORDER BY id DESC LIMIT ?',
  );
  const ofTrace = database.prepare<[string, string, number], SpanRow>(
    'SELECT * FROM spans WHERE app_id = ? AND trace_id = ? ORDER BY id LIMIT ?',
  );

  return {
    add: (row: Omit<SpanRow, 'id'>): void => {
      add.run(row);
    },
    /** Returns an app's spans with ids below `before` that began at or after `from` (ms since 1970), newest first. */
    newest: (appId: string, from: number, before: number, limit: number): SpanRow[] =>
      newest.all(appId, before, from, limit),
    /** Returns an app's spans of a trace, oldest first. */
    ofTrace: (appId: string, traceId: string, limit: number): SpanRow[] => ofTrace.all(appId, traceId, limit),
    ...sampleQueries(database, 'spans'),
  };
}
export type SpanQueries = ReturnType<typeof spanQueries>;
