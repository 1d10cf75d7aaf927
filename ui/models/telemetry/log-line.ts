// Splits a log line into its message and named fields.
import type { Result } from '../../api.ts';

export type LogLine = Result<'logs.list'>['items'][number];

export interface Said {
  message: string;
  fields: readonly (readonly [string, string])[];
}

/** Names of the member that has the message in a JSON line, most preferred first. */
const MESSAGES = ['msg', 'message', 'text', 'event'];
/** Fields that are shown next to the line already. */
const BESIDE = ['level', 'time', 'timestamp', 'ts'];

/**
 * Splits a line. A JSON object gives its message and its other members, parsed from the text: `fields` has them truncated.
 * Other text is the message, beside the line's `fields`.
 */
export function readLine({ text, fields }: Pick<LogLine, 'text' | 'fields'>): Said {
  const json = text.startsWith('{') ? objectOf(text) : null;
  if (json === null) return { message: text, fields: entries(fields ?? {}) };
  const name = MESSAGES.find((each) => typeof json[each] === 'string');
  if (name === undefined) return { message: text, fields: [] };
  const rest = Object.entries(json).filter(([key]) => key !== name && !BESIDE.includes(key));
  return { message: json[name] as string, fields: entries(Object.fromEntries(rest)) };
}

function objectOf(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function entries(values: object): [string, string][] {
  return Object.entries(values).map(([name, value]) => [
    name,
    typeof value === 'string' ? value : JSON.stringify(value),
  ]);
}

export const levels = ['debug', 'info', 'warn', 'error'] as const;
export type Level = LogLine['level'];

/** A filter of lines. Empty: all. */
export interface LogFilter {
  search: string;
  level: Level | '';
  trace: string;
  /** Shows the log of this preview; empty: the app's. */
  preview: string;
}

/** Whether a line matches. Uses the server's rules, so that loaded lines can be filtered at once. */
export function isWanted(line: LogLine, { search, level, trace }: Omit<LogFilter, 'preview'>): boolean {
  if (level !== '' && levels.indexOf(line.level) < levels.indexOf(level)) return false;
  if (trace !== '' && line.trace_id !== trace) return false;
  if (search === '') return true;
  const wanted = search.toLowerCase();
  if (line.text.toLowerCase().includes(wanted)) return true;
  return line.fields !== null && JSON.stringify(line.fields).toLowerCase().includes(wanted);
}
