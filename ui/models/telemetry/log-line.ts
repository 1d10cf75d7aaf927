// A line of a log as it is shown: its message, and what is said besides by name.
import type { Result } from '../../api.ts';

export type LogLine = Result<'logs.list'>['items'][number];

/** What a line says. */
export interface Said {
  message: string;
  fields: readonly (readonly [string, string])[];
}

/** Names that JSON lines give to their message. */
const MESSAGES = ['msg', 'message', 'text', 'event'];
/** What stands beside the line already. */
const BESIDE = ['level', 'time', 'timestamp', 'ts'];

/** Reads a line. One of JSON is its message and its other members: the line's own fields are those, cut short. */
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

/** Which lines are wanted. Empty: all. */
export interface LogFilter {
  search: string;
  level: Level | '';
  trace: string;
  /** The preview whose log it is; empty: the app's. */
  preview: string;
}

/** Whether a line is wanted. As the server decides it, so that what is there already can be searched at once. */
export function isWanted(line: LogLine, { search, level, trace }: Omit<LogFilter, 'preview'>): boolean {
  if (level !== '' && levels.indexOf(line.level) < levels.indexOf(level)) return false;
  if (trace !== '' && line.trace_id !== trace) return false;
  if (search === '') return true;
  const wanted = search.toLowerCase();
  if (line.text.toLowerCase().includes(wanted)) return true;
  return line.fields !== null && JSON.stringify(line.fields).toLowerCase().includes(wanted);
}
