// A line of a log, as it is kept and as it is shown.
import type { LogLine } from '../../handlers/contract/telemetry.ts';
import type { LogRow } from '../../sqlite/telemetry/logs.ts';
import { type Fields, LEVELS, type LogRecord, SOURCES } from './log-lines.ts';

/** What ids are made of: so many for each ms. */
const IDS_PER_MS = 100;

/** The lowest id that a line which came at `at` can have. */
export function idAt(at: number): number {
  return at * IDS_PER_MS;
}

/** A record as it is kept. */
export function rowOf(id: number, { at, level, source, text, fields, traceId, release }: LogRecord): LogRow {
  return {
    id,
    at,
    level: LEVELS.indexOf(level),
    source: SOURCES.indexOf(source),
    text,
    fields: fields === null ? null : JSON.stringify(fields),
    trace_id: traceId,
    release,
  };
}

/** What is kept, as people are shown it. */
export function lineOf({ id, at, level, source, text, fields, trace_id, release }: LogRow): LogLine {
  return {
    id: String(id),
    at: new Date(at).toISOString(),
    level: LEVELS[level]!,
    source: SOURCES[source]!,
    text,
    fields: fields === null ? null : (JSON.parse(fields) as Fields),
    trace_id,
    release,
  };
}

/** Characters of lines, about. */
export function lengthOf(rows: readonly LogRow[]): number {
  return rows.reduce((sum, { text }) => sum + text.length, 0);
}
