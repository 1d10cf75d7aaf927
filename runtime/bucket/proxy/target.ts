// Parses request targets, and decides which operations are allowed. Refuses encodings that a store could read differently.
import type { S3Place } from '../place.ts';
import { Refused } from './refused.ts';
import { encode } from './signature.ts';
import type { Sender } from './verify.ts';

/** Maximum bytes of a part of an upload, and of an object that one request writes. */
const PART_BYTES = 5 * 2 ** 30;
/** Maximum bytes of the list of parts that completes an upload. */
const PARTS_LIST_BYTES = 4 * 2 ** 20;
/** Folder of large KV values, below an app's data. */
const VALUES = 'v1/services/';
/** Maximum bytes of a large KV value: workerd can write more, but cannot read it again. */
export const VALUE_BYTES = 16 * 2 ** 20;
const KEY_BYTES = 1_024;

/** The target of a request, percent-decoded once. */
export interface Target {
  path: string;
  query: Map<string, string>;
}

/** An allowed operation, and its class in the price lists of stores. */
export interface Operation {
  counts: 'writes' | 'reads' | 'deletes';
  /** Maximum bytes of the request's body. */
  mostBytes: number;
  /** The path of the request to the store, not encoded. */
  path: string;
}

/** The allowed queries of each method, by the sorted names of their parameters. `x-id` is allowed in addition. */
const QUERIES: Record<string, [query: string, counts: Operation['counts'], mostBytes: number][]> = {
  GET: [['', 'reads', 0]],
  HEAD: [['', 'reads', 0]],
  PUT: [
    ['', 'writes', PART_BYTES],
    ['partNumber,uploadId', 'writes', PART_BYTES],
  ],
  POST: [
    ['uploads', 'writes', 0],
    ['uploadId', 'writes', PARTS_LIST_BYTES],
  ],
  DELETE: [
    ['', 'deletes', 0],
    ['uploadId', 'deletes', 0],
  ],
};
const LIST_QUERY = new Set([
  'list-type',
  'prefix',
  'delimiter',
  'continuation-token',
  'start-after',
  'max-keys',
  'encoding-type',
  'x-id',
]);

/** Parses a request target. @throws {Refused} unless it is percent-encoded exactly as in signatures */
export function readTarget(target: string): Target {
  const [rawPath, rawQuery = ''] = splitAt(target, '?');
  if (!rawPath.startsWith('/')) throw unclear('it must begin with /');
  const path = rawPath
    .split('/')
    .map((segment) => decodeSegment(segment))
    .join('/');
  const query = new Map<string, string>();
  for (const pair of rawQuery === '' ? [] : rawQuery.split('&')) {
    const [rawName, rawValue = ''] = splitAt(pair, '=');
    const [name, value] = [decode(rawName), decode(rawValue)];
    if (query.has(name)) throw unclear(`${name} occurs twice`);
    query.set(name, value);
  }
  return { path, query };
}

/** Returns the operation of a request. @throws {Refused} unless the app may do it */
export function operationOf(
  method: string,
  { path, query }: Target,
  { bucket, prefix }: Pick<S3Place, 'bucket' | 'prefix'>,
  { appId, opens }: Pick<Sender, 'appId' | 'opens'>,
): Operation {
  if (!Object.hasOwn(QUERIES, method)) throw new Refused('MethodNotAllowed', `${method} is not served`);
  // The rest of the app's folder belongs to the host.
  const own = `${prefix}apps/${appId}/${opens}/`;
  const isBucket = path === `/${bucket}` || path === `/${bucket}/`;
  if (isBucket) {
    requireList(method, query, own);
    return { counts: 'writes', mostBytes: 0, path: `/${bucket}` };
  }
  if (!path.startsWith(`/${bucket}/`)) throw denied('this is another bucket');
  const key = path.slice(bucket.length + 2);
  requireOwn(key, own);
  const names = [...query.keys()].filter((name) => name !== 'x-id');
  const found = QUERIES[method]!.find(([wanted]) => wanted === names.sort().join(','));
  if (found === undefined) throw denied(`${method} with this query is not served`);
  if (query.has('partNumber') && !/^[1-9]\d{0,4}$/.test(query.get('partNumber')!))
    throw denied('partNumber must be a number from 1 to 10000');
  const [, counts, mostBytes] = found;
  const isValue = opens === 'data' && key.startsWith(own + VALUES);
  return { counts, mostBytes: isValue ? Math.min(mostBytes, VALUE_BYTES) : mostBytes, path };
}

function requireList(method: string, query: Target['query'], own: string): void {
  const isList = method === 'GET' && query.get('list-type') === '2';
  if (!isList) throw denied('of the requests for a bucket, only GET with list-type=2 is served');
  const other = [...query.keys()].find((name) => !LIST_QUERY.has(name));
  if (other !== undefined) throw denied(`a list with ${other} is not served`);
  const prefix = query.get('prefix') ?? '';
  // A list prefix may end with `/`. `requireOwn` would refuse its empty last segment, so this adds `-` to it.
  requireOwn(prefix.endsWith('/') ? `${prefix}-` : prefix, own);
}

/** @throws {Refused} unless the key is below the folder `own`, even for a store that normalizes or decodes names */
function requireOwn(key: string, own: string): void {
  if (!key.startsWith(own)) throw denied(`names must begin with ${own}`);
  if (Buffer.byteLength(key) > KEY_BYTES) throw denied(`names have at most ${KEY_BYTES} bytes`);
  for (const segment of key.split('/'))
    if (segment === '' || segment === '.' || segment === '..')
      throw denied('a name may have no segment that is empty, . or ..');
  if (/[\p{Cc}\\]|%[\da-f]{2}/iu.test(key))
    throw denied('a name may have no backslash, no control character and nothing that is encoded twice');
}

function decodeSegment(segment: string): string {
  const text = decode(segment);
  if (text.includes('/')) throw unclear('a segment may have no encoded /');
  return text;
}

/** Decodes a part of a target. @throws {Refused} unless it is encoded exactly as in signatures */
function decode(part: string): string {
  let text: string;
  try {
    text = decodeURIComponent(part);
  } catch {
    throw unclear('its percent encoding is invalid');
  }
  if (encode(text) !== part) throw unclear('all but letters, digits and -._~ must be encoded, in upper case');
  return text;
}

function splitAt(text: string, separator: string): [string, string?] {
  const at = text.indexOf(separator);
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

function unclear(why: string): Refused {
  return new Refused('InvalidRequest', `the target has more than one meaning: ${why}`);
}

function denied(why: string): Refused {
  return new Refused('AccessDenied', why);
}
