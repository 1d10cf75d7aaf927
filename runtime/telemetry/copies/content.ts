// The content of a copy: rows as compressed JSON.
import { hash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzip, gzip } from 'node:zlib';

const FORMAT = 1;
/** Maximum bytes of the JSON of a copy that is loaded. */
const BYTES_MAX = 64 * 1024 * 1024;

const compress = promisify(gzip);
const decompress = promisify(gunzip);

/** A row as in the JSON of a copy. */
export interface CopiedRow {
  app_id: string;
  [column: string]: unknown;
}

export function textOf(rows: CopiedRow[]): string {
  return JSON.stringify({ format: FORMAT, rows });
}

/** Returns the SHA-256 hash of a copy's JSON, in hexadecimal. */
export function hashOf(text: string): string {
  return hash('sha256', text);
}

export async function pack(text: string): Promise<Buffer<ArrayBuffer>> {
  return Buffer.from(await compress(text));
}

/** @throws {Error} when the copy is damaged, or was written by a newer Cellar */
export async function unpack(bytes: Uint8Array): Promise<{ rows: CopiedRow[]; hash: string }> {
  const text = (await decompress(bytes, { maxOutputLength: BYTES_MAX })).toString('utf8');
  const { format, rows } = JSON.parse(text) as { format?: unknown; rows?: unknown };
  if (format !== FORMAT) throw new Error(`its format is ${format}, and this Cellar knows ${FORMAT}`);
  if (!Array.isArray(rows) || !rows.every(isRow))
    throw new Error('its "rows" are not a list of rows with an app_id');
  return { rows, hash: hashOf(text) };
}

function isRow(row: unknown): row is CopiedRow {
  return typeof row === 'object' && row !== null && 'app_id' in row && typeof row.app_id === 'string';
}
