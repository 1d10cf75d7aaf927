// A line of a log, as it is kept and as it is shown.
import type { LogLine } from '../../../handlers/contract/telemetry/logs.ts';
import type { LogRow } from '../../../sqlite/telemetry/logs.ts';
import { type Fields, LEVELS, type LogRecord, SOURCES } from './log-lines.ts';

/** What ids are made of: so many for each ms. */
const IDS_PER_MS = 100;

/** Characters that a line is said to have besides its texts: what it takes in memory, and around it in an event. */
const ROW_LENGTH = 200;

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

/** Characters of a line, about, with what it has besides its texts. */
export function lengthOf({ text, fields }: LogRow): number {
  return ROW_LENGTH + text.length + (fields?.length ?? 0);
}

/** The same of several. */
export function lengthOfAll(rows: readonly LogRow[]): number {
  return rows.reduce((sum, row) => sum + lengthOf(row), 0);
}
