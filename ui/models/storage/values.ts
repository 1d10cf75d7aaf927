// Formats and parses stored values: values of SQLite, and values of Durable Objects, which include types outside JSON.
import type { Params, Result } from '../../api.ts';

export type SqlValue = Result<'storage.d1.get'>['rows'][number][number];
export type SqlParameter = NonNullable<Params<'storage.d1.write'>['params']>[number];

/** Maximum characters of a value in a list. */
const LISTED = 200;

export type Kind = 'null' | 'empty' | 'text' | 'number' | 'bytes';

/** Formats a value of SQLite for a grid. */
export function cellOf(value: SqlValue): { kind: Kind; text: string } {
  if (value === null) return { kind: 'null', text: 'NULL' };
  if (value === '') return { kind: 'empty', text: 'empty' };
  if (typeof value === 'string')
    return { kind: 'text', text: value.length > LISTED ? `${value.slice(0, LISTED)}…` : value };
  if (typeof value === 'object' && '$bytes' in value)
    return { kind: 'bytes', text: hex(bytesOf(value.$bytes)) };
  return { kind: 'number', text: textOf(value) };
}

/** Returns a value as editable text: empty for NULL, hexadecimal for bytes. */
export function textOf(value: SqlValue): string {
  if (value === null) return '';
  if (typeof value !== 'object') return String(value);
  if ('$bigint' in value) return value.$bigint;
  if ('$number' in value) return value.$number;
  return hex(bytesOf(value.$bytes), Number.POSITIVE_INFINITY);
}

export function isSame(one: SqlValue, other: SqlValue): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

/**
 * Parses typed text for a column: a number if the type is numeric and the text is a number, else a string.
 * @param type as declared by the table
 */
export function typed(text: string, type: string): SqlValue {
  if (/INT|REAL|FLOA|DOUB|NUM|DEC|BOOL/i.test(type)) {
    if (/^\s*-?\d+\s*$/.test(text)) {
      const number = Number(text);
      return Number.isSafeInteger(number) ? number : { $bigint: String(BigInt(text.trim())) };
    }
    if (/^\s*-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*$/i.test(text)) return Number(text);
  }
  return text;
}

export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

export function base64Of(bytes: Uint8Array): string {
  let text = '';
  for (let from = 0; from < bytes.length; from += 8192)
    text += String.fromCharCode(...bytes.subarray(from, from + 8192));
  return btoa(text);
}

/** Decodes UTF-8; null for binary data. @param isCut whether the bytes may end inside a character */
export function textIn(bytes: Uint8Array, isCut = false): string | null {
  try {
    const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
    const text = decoder.decode(bytes, { stream: isCut });
    // biome-ignore lint/suspicious/noControlCharactersInRegex: text has no such control characters
    return /[\u0000-\u0008\u000e-\u001a\u007f]/.test(text) ? null : text;
  } catch {
    return null;
  }
}

/** Formats at most `most` bytes: `89 50 4e 47 … 68 bytes`. */
export function hex(bytes: Uint8Array, most = 12): string {
  const shown = [...bytes.subarray(0, most)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
  return bytes.length > most ? `${shown} … ${bytes.length} bytes` : shown;
}

/**
 * Returns indented JSON; null for text that is not a JSON object or array, and if more than white space would change, such
 * as a large number, which would be rounded.
 */
export function prettyJson(text: string): string | null {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    const value: unknown = JSON.parse(text);
    const dense = text.replace(/("(?:[^"\\]|\\.)*")|\s+/g, '$1');
    return JSON.stringify(value) === dense ? JSON.stringify(value, null, 2) : null;
  } catch {
    return null;
  }
}

/** Formats a stored value for people, in a notation like that of browser consoles. */
export function written(value: unknown, indent = 0): string {
  if (value === null || typeof value === 'number' || typeof value === 'boolean') return String(value);
  if (typeof value === 'string') return JSON.stringify(value);
  if (Array.isArray(value))
    return block(
      '[',
      value.map((each) => written(each, indent + 1)),
      ']',
      indent,
    );
  const fields = value as Record<string, unknown>;
  if ('$undefined' in fields) return 'undefined';
  if ('$bigint' in fields) return `${fields.$bigint}n`;
  if ('$number' in fields) return String(fields.$number);
  if ('$date' in fields) return `Date ${fields.$date}`;
  if ('$regexp' in fields) return String(fields.$regexp);
  if ('$ref' in fields) return `the same as ${fields.$ref}`;
  if ('$deep' in fields) return '… deeper than is shown';
  if ('$large' in fields) return `… ${fields.$large} bytes, too large for a list`;
  if ('$unreadable' in fields) return `… cannot be decoded: ${fields.$unreadable}`;
  if ('$error' in fields) {
    const { name, message } = fields.$error as { name: string; message: string };
    return `${name}: ${message}`;
  }
  if ('$bytes' in fields) {
    const bytes = bytesOf(String(fields.$bytes));
    return `${String(fields.type ?? 'Uint8Array')}(${bytes.length}) ${hex(bytes)}`.trimEnd();
  }
  if ('$map' in fields) {
    const pairs = fields.$map as [unknown, unknown][];
    const lines = pairs.map(([key, each]) => `${written(key, indent + 1)} → ${written(each, indent + 1)}`);
    return block(`Map(${pairs.length}) {`, lines, '}', indent);
  }
  if ('$set' in fields) {
    const all = fields.$set as unknown[];
    return block(
      `Set(${all.length}) {`,
      all.map((each) => written(each, indent + 1)),
      '}',
      indent,
    );
  }
  const pairs = '$object' in fields ? (fields.$object as [string, unknown][]) : Object.entries(fields);
  const lines = pairs.map(([name, each]) => {
    const key = /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
    return `${key}: ${written(each, indent + 1)}`;
  });
  return block('{', lines, '}', indent);
}

/** Joins the entries of an object or array: on one line if they are short, else on a line each. */
function block(open: string, lines: string[], close: string, indent: number): string {
  if (lines.length === 0) return `${open}${close}`;
  const isShort = lines.join(', ').length <= 60 && !lines.some((line) => line.includes('\n'));
  if (isShort) {
    const space = open.endsWith('[') ? '' : ' ';
    return `${open}${space}${lines.join(', ')}${space}${close}`;
  }
  const pad = '  '.repeat(indent + 1);
  return `${open}\n${lines.map((line) => `${pad}${line}`).join(',\n')}\n${'  '.repeat(indent)}${close}`;
}

/** Returns an error message for text that is not JSON; null for JSON. */
export function whyNoJson(text: string): string | null {
  try {
    JSON.parse(text);
    return null;
  } catch {
    return 'The text is not valid JSON.';
  }
}
