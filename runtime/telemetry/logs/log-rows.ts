// Converts log lines between their stored form and the API's.
import type { LogLine } from '../../../handlers/contract/telemetry/logs.ts';
import type { LogRow } from '../../../sqlite/telemetry/logs.ts';
import { type Fields, LEVELS, type LogRecord, SOURCES } from './log-lines.ts';

/** Ids available in each ms. */
const IDS_PER_MS = 100;

/** Characters counted for a line in addition to its texts: its overhead in memory and in an event. */
const ROW_LENGTH = 200;

/** Returns the lowest id of a line that is stored at `at`, in ms since 1970. */
export function idAt(at: number): number {
  return at * IDS_PER_MS;
}

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

/** Converts a row to the API's form. */
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

/** Returns the approximate length of a line in characters, overhead included. */
export function lengthOf({ text, fields }: LogRow): number {
  return ROW_LENGTH + text.length + (fields?.length ?? 0);
}

/** Returns the approximate total length of lines in characters, overhead included. */
export function lengthOfAll(rows: readonly LogRow[]): number {
  return rows.reduce((sum, row) => sum + lengthOf(row), 0);
}
