// Writes the result of a query: https://developers.cloudflare.com/analytics/analytics-engine/sql-reference/statements/#format-clause
import type { Format } from './parser.ts';
import type { Result } from './select.ts';
import { showTime, UTC } from './times.ts';
import { SqlError } from './tokens.ts';
import { type Column, isTime, type Value } from './types.ts';

/** Maximum bytes of the rows of a response. */
const ANSWER_BYTES = 16 * 1024 * 1024;

export interface Written {
  contentType: string;
  text: string;
}

/** Formats the result of a query. @throws {SqlError} when the response gets too long */
export function write({ columns, rows, beforeLimit }: Result, format: Format): Written {
  const lines: string[] = [];
  let left = ANSWER_BYTES;
  for (const row of rows) {
    const line = format === 'TabSeparated' ? tabs(row, columns) : JSON.stringify(shownRow(row, columns));
    left -= Buffer.byteLength(line) + 1;
    if (left < 0) throw new SqlError('the response exceeds 16 MiB: select fewer columns, or add LIMIT', null);
    lines.push(line);
  }
  if (format !== 'JSON') {
    const contentType = format === 'TabSeparated' ? 'text/tab-separated-values' : 'application/x-ndjson';
    return { contentType: `${contentType}; charset=utf-8`, text: lines.map((line) => `${line}\n`).join('') };
  }
  const meta = columns.map(({ name, type }) => ({ name, type: type.name }));
  const counts = `"rows":${rows.length},"rows_before_limit_at_least":${beforeLimit}`;
  return {
    contentType: 'application/json; charset=utf-8',
    text: `{"meta":${JSON.stringify(meta)},"data":[${lines.join(',')}],${counts}}`,
  };
}

function shownRow(row: readonly Value[], columns: readonly Column[]): Record<string, unknown> {
  return Object.fromEntries(row.map((value, i) => [columns[i]!.name, shown(value, columns[i]!)]));
}

/** Converts a value for JSON, as Cloudflare and ClickHouse do: 64-bit integers to texts, NaN and infinity to null. */
function shown(value: Value, { type }: Pick<Column, 'type'>): unknown {
  const { item } = type;
  if (Array.isArray(value) && item) return value.map((each) => shown(each, { type: item }));
  if (typeof value !== 'number') return value;
  if (isTime(type)) return showTime(value, type.zone ?? UTC).slice(0, type.name === 'Date' ? 10 : undefined);
  if (!Number.isFinite(value)) return null;
  return type.name === 'UInt64' || type.name === 'Int64' ? String(value) : value;
}

const ESCAPES: Record<string, string> = { '\t': '\\t', '\n': '\\n', '\r': '\\r', '\\': '\\\\' };

function tabs(row: readonly Value[], columns: readonly Column[]): string {
  return row
    .map((value, i) => {
      const known = shown(value, columns[i]!) ?? 'nan';
      const text = Array.isArray(known) ? JSON.stringify(known) : String(known);
      return text.replace(/[\t\n\r\\]/g, (char) => ESCAPES[char]!);
    })
    .join('\t');
}
