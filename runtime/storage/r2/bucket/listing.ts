// Lists the keys of a bucket, a page at a time.
import type { ObjectRow } from '../../../../sqlite/storage/objects.ts';
import { invalidLimit, LIST_KEYS } from '../errors.ts';
import type { RequestOf } from '../requests.ts';

/** Maximum number of objects in an answer with metadata, as in R2. It limits the answer's size. */
const DESCRIBED_KEYS = 100;

/**
 * Maximum characters of an object's custom or HTTP metadata in a page, as JSON. New objects have less. Older ones may have
 * so much that a page would not fit in memory.
 */
const LISTED_LENGTH = 256 * 1024;

/** A page of a bucket. */
export interface Listed {
  objects: ObjectRow[];
  /** Distinct key prefixes up to the delimiter. */
  delimitedPrefixes: string[];
  /** Start of the next page; null at the end. */
  cursor: string | null;
}

/** A page of keys, each as a row of the store. */
interface ListedKeys<Row> extends Omit<Listed, 'objects'> {
  rows: Row[];
}

type Page<Row> = (from: Buffer, limit: number) => Row[] | Promise<Row[]>;

/**
 * Returns a page of keys in byte order. Skips all keys of a delimited prefix in one step.
 * @param page returns rows from a key on, in order; an empty list at the end. More than `limit` are not needed, but allowed
 * @throws {R2Error} for an invalid limit
 */
export async function listKeys<Row extends { key: Buffer }>(
  page: Page<Row>,
  request: RequestOf<'list'>,
): Promise<ListedKeys<Row>> {
  const { limit: asked = LIST_KEYS, include = [], delimiter = '' } = request;
  if (asked < 1 || asked > LIST_KEYS) throw invalidLimit();
  const limit = include.length > 0 ? Math.min(asked, DESCRIBED_KEYS) : asked;
  const prefix = Buffer.from(request.prefix ?? '', 'utf8');
  const mark = Buffer.from(delimiter, 'utf8');
  const found: ListedKeys<Row> = { rows: [], delimitedPrefixes: [], cursor: null };
  let from = beginning(request, prefix);
  // With a delimiter, one prefix may stand for many rows, which are skipped. So a batch has few rows at first, and twice as
  // many each time, until a row has the delimiter.
  let batch = mark.length === 0 ? limit + 1 : 1;
  for (let count = 0; ; batch *= 2) {
    // One more row shows whether another page follows.
    const rows = await page(from, Math.min(batch, limit - count + 1));
    if (rows.length === 0) return found;
    for (const row of rows) {
      if (!startsWith(row.key, prefix)) return found;
      if (count === limit) return { ...found, cursor: from.toString('base64') };
      count++;
      const at = mark.length === 0 ? -1 : row.key.indexOf(mark, prefix.length);
      if (at !== -1) {
        const shared = row.key.subarray(0, at + mark.length);
        found.delimitedPrefixes.push(shared.toString('utf8'));
        from = after(shared);
        batch = 1;
        break;
      }
      found.rows.push(row);
      from = Buffer.concat([row.key, Buffer.alloc(1)]);
    }
  }
}

/** Returns an object for a page: without metadata that is not requested, or is too long for a page. */
export function listedObject(row: ObjectRow, { include = [] }: RequestOf<'list'>): ObjectRow {
  const isListed = (field: 0 | 1, json: string) => include.includes(field) && json.length <= LISTED_LENGTH;
  return {
    ...row,
    ...(!isListed(0, row.http_metadata) && { http_metadata: '{}' }),
    ...(!isListed(1, row.custom_metadata) && { custom_metadata: '[]' }),
  };
}

/** Returns the least key, in byte order, that the page may have. */
function beginning({ startAfter, cursor }: RequestOf<'list'>, prefix: Buffer): Buffer {
  const keys = [prefix];
  if (startAfter !== undefined) keys.push(Buffer.from(`${startAfter}\0`, 'utf8'));
  if (cursor !== undefined) keys.push(Buffer.from(cursor, 'base64'));
  return keys.reduce((a, b) => (Buffer.compare(a, b) < 0 ? b : a));
}

function startsWith(key: Buffer, prefix: Buffer): boolean {
  return key.subarray(0, prefix.length).equals(prefix);
}

/** Returns the least key after all those with `prefix`. UTF-8 has no byte 255. */
function after(prefix: Buffer): Buffer {
  const next = Buffer.from(prefix);
  next[next.length - 1]!++;
  return next;
}
