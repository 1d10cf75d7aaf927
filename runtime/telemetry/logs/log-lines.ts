// Parses one line that a cell (an app's workerd process) printed into a record. Limits its length, and removes control
// characters.
import type { AppReport, TailedPart } from '../../../handlers/contract/host/host-calls.ts';
import { cutText } from '../../../handlers/contract/text.ts';
import { plainText } from '../../processes/lines.ts';
import { parseObject, readLogEnvelope } from './log-envelope.ts';
import { callsOf, type ReportedCalls } from './reported-calls.ts';

export const LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type Level = (typeof LEVELS)[number];
/** Sources of lines: the app, workerd, the app's builds, the supervisor. */
export const SOURCES = ['app', 'workerd', 'build', 'supervisor'] as const;
export type Source = (typeof SOURCES)[number];
export type Fields = Record<string, string | number | boolean | null>;

/** One entry of an app's log. */
export interface LogRecord {
  /** ms since 1970. */
  at: number;
  level: Level;
  source: Source;
  /** May have several lines. */
  text: string;
  fields: Fields | null;
  /** As the app reports it: 32 hexadecimal digits; null for none. */
  traceId: string | null;
  /** The deploy whose release printed the line, or that the host's line is about; null for none. */
  release: string | null;
  /** Only for followers of a tail; not stored. */
  tail?: TailedPart;
}

/** An error reported by Cellar's code in a Worker. Untrusted: the app can fake all of it. */
export interface ReportedError {
  /** Equal in all reports of one thrown error; null when missing. */
  id: string | null;
  type: string;
  message: string;
  stack: string | null;
  mechanism: string | null;
  handler: string | null;
  method: string | null;
  path: string | null;
  /** How many errors before this one were dropped by a rate limit. */
  untold: number;
}

/** A finished cron run reported by Cellar's code in a Worker. Untrusted: the app can fake all of it. */
export interface ReportedRun {
  cron: string;
  trigger: 'schedule' | 'manual';
  /** In ms since 1970. */
  startedAt: number;
  durationMs: number;
  outcome: 'ok' | 'failed';
  error: string | null;
}

/** A data point written by a Worker. Untrusted: the app can fake all of it. */
export interface ReportedPoint {
  dataset: string;
  index: string | null;
  blobs: (string | null)[];
  /** Null: not a finite number. */
  doubles: (number | null)[];
}

/** A call of the binding to `cellar`. Untrusted: the app can fake all of it. */
export type ReportedByApp = Pick<AppReport, 'kind' | 'input'>;

/** A parsed line. */
export interface ReadLine {
  record: Omit<LogRecord, 'release'>;
  error: ReportedError | null;
  run: ReportedRun | null;
  point: ReportedPoint | null;
  calls: ReportedCalls | null;
  report: ReportedByApp | null;
}

/** Maximum characters of a text. */
export const TEXT_LENGTH = 16_384;
/** Maximum characters of all fields of a line together. */
const FIELDS_LENGTH = 4_096;
/** Maximum characters of a field's name. */
const NAME_LENGTH = 100;
/** Maximum characters of a field's text. */
const FIELD_LENGTH = 1_000;
/** Maximum characters of printed values, as JSON. */
const VALUES_LENGTH = 8_192;
const MARK = ' …';
/** A reported time is ignored if it is after the line's arrival, or more than this many ms before it. */
const LATE_MS = 10_000;
/** Matches the start of a line in workerd's log format, for a line whose end was cut off. */
const CUT_LINE = /^\{"timestamp":"?(\d{1,16})"?,"level":"([a-z]+)",(?:"source":"[^"\\]*",)?"message":"/;
/** A reported duration or age of a run above this, in ms, is ignored. */
const RUN_MS = 24 * 3_600_000;
/** Limit of `untold`: more errors than a cell can throw between two reports. */
const UNTOLD_MOST = 1_000_000;
/** Maximum number of blobs, and of doubles, of a data point. */
const POINT_MEMBERS = 20;
/** Matches lines that V8 and workerd print after a crash or when memory runs out. They name no place in the app's code. */
const CRASH_TRACE =
  /^(<--- .* --->$|\[\d+:0x[0-9a-f]+\] +\d+ ms: |\*\*\* Received signal #\d+: |stack: (\S+@0x[0-9a-f]+ ?)+)/;
/** Matches the end of workerd's own messages: the path of its program, and addresses in it. */
const WORKERD_STACK = /\nstack: \/.*$/s;
/** Maximum characters of a report's input as JSON. The binding to `cellar` refuses a report of more bytes than this. */
const REPORT_LENGTH = 20_000;
const TRACE_ID = /^(?!0{32})[0-9a-f]{32}$/;

/**
 * Parses a line that a cell printed. A line of a crash trace gives an empty text, because the supervisor reports why the
 * process ended.
 * @param pipe where the line was printed: on `stderr`, lines not in workerd's log format have the level `error`
 * @param now ms since 1970
 */
export function readLine(line: string, pipe: 'stdout' | 'stderr', now: number): ReadLine {
  const logged = line.startsWith('{"') ? (whole(line) ?? cut(line)) : null;
  if (logged === null)
    return {
      record: plain(CRASH_TRACE.test(line) ? '' : line, pipe === 'stderr' ? 'error' : 'info', 'app', now),
      error: null,
      run: null,
      point: null,
      calls: null,
      report: null,
    };
  const { timestamp, level, message } = logged;
  // workerd writes the time of its own lines as a string.
  const source = typeof timestamp === 'string' ? 'workerd' : 'app';
  const time = Number(timestamp);
  const at = time <= now && time > now - LATE_MS ? Math.floor(time) : now;
  const marked = source === 'app' ? readLogEnvelope(message) : null;
  const words = source === 'app' ? (marked?.text ?? message) : message.replace(WORKERD_STACK, '');
  const record = plain(words, levelOf(level), source, at);
  if (marked === null) return { record, error: null, run: null, point: null, calls: null, report: null };
  const { trace_id, fields, error, run, point, calls, report, values } = marked.said;
  const traceId = typeof trace_id === 'string' && TRACE_ID.test(trace_id) ? trace_id : null;
  return {
    record: { ...record, traceId, fields: fieldsOf(fields ?? run), ...valuesOf(values) },
    error: errorOf(error),
    run: runOf(run, now),
    point: pointOf(point),
    calls: callsOf(calls, now),
    report: reportOf(report),
  };
}

/** Adds fields to an app's line whose text is a JSON object, as many loggers print: the members of the object. */
export function withFields<Any extends Pick<LogRecord, 'source' | 'text' | 'fields'>>(record: Any): Any {
  const { source, text, fields } = record;
  if (source !== 'app' || fields !== null || !text.startsWith('{')) return record;
  return { ...record, fields: fieldsOf(parseObject(text)) };
}

/** Truncates a text, and removes control characters except line ends. */
export function shownText(text: string): string {
  // Limits the work for a long text. Twice the final length, because control characters are removed.
  const bounded = text.length > 2 * TEXT_LENGTH ? text.slice(0, 2 * TEXT_LENGTH) : text;
  const shown = cutText(plainText(bounded), TEXT_LENGTH, MARK).trimEnd();
  return bounded === text || shown.endsWith(MARK) ? shown : shown + MARK;
}

interface Logged {
  timestamp: unknown;
  level: string;
  message: string;
}

function whole(line: string): Logged | null {
  const { timestamp, level, message } = parseObject(line) ?? {};
  return typeof level === 'string' && typeof message === 'string' && timestamp !== undefined
    ? { timestamp, level, message }
    : null;
}

/** Parses a line whose end is missing. */
function cut(line: string): Logged | null {
  const head = CUT_LINE.exec(line);
  if (head === null) return null;
  const timestamp = head[0].startsWith('{"timestamp":"') ? head[1] : Number(head[1]);
  // The line reader ends a cut line with this character. The last escape may be incomplete.
  const rest = line.slice(head[0].length).replace(/…$/, '');
  for (let missing = 0; missing <= 6; missing++) {
    try {
      const message = JSON.parse(`"${rest.slice(0, rest.length - missing)}"`) as string;
      return { timestamp, level: head[2]!, message: message + MARK };
    } catch {
      // Try with one character less.
    }
  }
  return null;
}

function plain(words: string, level: Level, source: Source, at: number): Omit<LogRecord, 'release'> {
  return { at, level, source, text: shownText(words), fields: null, traceId: null };
}

function levelOf(level: string): Level {
  if (level === 'log') return 'info';
  return (LEVELS as readonly string[]).includes(level) ? (level as Level) : 'info';
}

function valuesOf(given: unknown): { tail: TailedPart } | null {
  if (!Array.isArray(given)) return null;
  const values = jsonOf(given, VALUES_LENGTH);
  return values === null ? null : { tail: { values } };
}

/** Returns the fields of a record, up to the limit. */
function fieldsOf(given: unknown): Fields | null {
  if (typeof given !== 'object' || given === null) return null;
  const fields: Fields = {};
  let room = FIELDS_LENGTH;
  for (const [name, value] of Object.entries(given)) {
    const key = cutText(plainText(cutText(name, NAME_LENGTH, MARK)), NAME_LENGTH + MARK.length);
    const shown = fieldOf(value);
    room -= key.length + (typeof shown === 'string' ? shown.length : 8);
    if (room < 0) break;
    // Not by assignment: a field may be called `__proto__`.
    Object.defineProperty(fields, key, {
      value: shown,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
  return Object.keys(fields).length === 0 ? null : fields;
}

function fieldOf(value: unknown): Fields[string] {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return value;
  if (typeof value === 'string') return cutText(plainText(cutText(value, FIELD_LENGTH)), FIELD_LENGTH, MARK);
  try {
    return cutText(plainText(JSON.stringify(value)), FIELD_LENGTH, MARK);
  } catch {
    // Nested too deeply for JSON.
    return MARK.trim();
  }
}

function errorOf(given: unknown): ReportedError | null {
  if (typeof given !== 'object' || given === null) return null;
  const { id, type, message, stack, mechanism, handler, method, path, untold } = given as Record<
    string,
    unknown
  >;
  return {
    id: short(id),
    type: short(type) ?? 'Error',
    message: text(message) ?? '',
    stack: text(stack),
    mechanism: short(mechanism),
    handler: short(handler),
    method: short(method),
    path: short(path),
    untold: Number.isSafeInteger(untold) ? Math.min(Math.max(untold as number, 0), UNTOLD_MOST) : 0,
  };
}

function runOf(given: unknown, now: number): ReportedRun | null {
  if (typeof given !== 'object' || given === null) return null;
  const { cron, trigger, started_at, duration_ms, outcome, error } = given as Record<string, unknown>;
  const expression = short(cron);
  if (expression === null) return null;
  const durationMs = rounded(duration_ms);
  const startedAt = rounded(started_at);
  return {
    cron: expression,
    trigger: trigger === 'manual' ? 'manual' : 'schedule',
    startedAt: startedAt > now - RUN_MS && startedAt <= now ? startedAt : now,
    durationMs: durationMs >= 0 && durationMs <= RUN_MS ? durationMs : 0,
    outcome: outcome === 'ok' ? 'ok' : 'failed',
    error: short(error),
  };
}

/** Rounds a number. Any other value gives NaN and is not converted. */
function rounded(value: unknown): number {
  return typeof value === 'number' ? Math.round(value) : Number.NaN;
}

function pointOf(given: unknown): ReportedPoint | null {
  if (typeof given !== 'object' || given === null) return null;
  const { dataset, index, blobs, doubles } = given as Record<string, unknown>;
  const name = short(dataset);
  if (name === null || !Array.isArray(blobs) || !Array.isArray(doubles)) return null;
  return {
    dataset: name,
    index: short(index),
    blobs: blobs
      .slice(0, POINT_MEMBERS)
      .map((blob) => (typeof blob === 'string' ? blob.toWellFormed() : null)),
    doubles: doubles.slice(0, POINT_MEMBERS).map((double) => (typeof double === 'number' ? double : null)),
  };
}

function reportOf(given: unknown): ReportedByApp | null {
  if (typeof given !== 'object' || given === null) return null;
  const { kind, input } = given as Record<string, unknown>;
  if (kind !== 'log' && kind !== 'identify' && kind !== 'insight') return null;
  if (typeof input !== 'object' || input === null || Array.isArray(input)) return null;
  const text = jsonOf(input, REPORT_LENGTH);
  return text === null ? null : { kind, input: text };
}

/** Formats a value as JSON; null when it is longer than `most` characters, or nested too deeply. */
function jsonOf(value: unknown, most: number): string | null {
  try {
    const text = JSON.stringify(value);
    return text.length > most ? null : text;
  } catch {
    return null;
  }
}

function text(value: unknown): string | null {
  return typeof value === 'string' ? shownText(value) : null;
}

function short(value: unknown): string | null {
  return typeof value === 'string' ? cutText(plainText(cutText(value, FIELD_LENGTH)), FIELD_LENGTH) : null;
}
