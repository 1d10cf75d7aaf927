// Parses the request line. Characters that clients send raw although no URL may contain them are percent-encoded.
import { METHODS } from 'node:http';
import { badRequest, NO_CONNECT, NOT_HTTP, type OwnRefusal } from '../../refusals.ts';

export interface RequestLine {
  method: string;
  /** The target, percent-encoded. */
  target: string;
  /** The part of the target before its query. */
  path: string;
  minorVersion: number;
}

/** Maps each method to one shared string: a freshly parsed string is slower to compare each time. */
const KNOWN_METHODS = new Map(METHODS.map((name) => [name, name]));
const GET = 'GET';
/** The bytes after the target; each 0 stands for any digit. */
const VERSION = Buffer.from(' HTTP/0.0');
const BLANK = 0x20;
const DASH = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const QUESTION_MARK = 0x3f;
const A = 0x41;
const Z = 0x5a;
const DELETE = 0x7f;

// How a byte of the target is handled: see `KINDS`.
const KEPT = 0;
const REFUSED = 1;
const QUERY_BEGINS = 2;
/** Percent-encoded in the path only: in the URL Standard's path percent-encode set. */
const ENCODED_IN_PATH = 3;
/** Percent-encoded in path and query: in the URL Standard's query percent-encode set. */
const ENCODED = 4;
const KINDS = Uint8Array.from({ length: 256 }, (_, byte) => {
  // 0x23 is `#`: a request target has no fragment.
  if (byte <= BLANK || byte === DELETE || byte === 0x23) return REFUSED;
  if (byte === QUESTION_MARK) return QUERY_BEGINS;
  if (byte > DELETE || '"<>'.includes(String.fromCharCode(byte))) return ENCODED;
  return '^`{}'.includes(String.fromCharCode(byte)) ? ENCODED_IN_PATH : KEPT;
});

/**
 * Parses the request line at the front of `bytes`. Byte by byte, because a string and a regular expression cost more.
 * @param end where the line ends
 */
export function readRequestLine(bytes: Buffer, end: number): RequestLine | { refusal: OwnRefusal } {
  let methodEnd = 0;
  while (isOfMethod(bytes[methodEnd]!)) methodEnd++;
  const targetAt = methodEnd + 1;
  const targetEnd = end - VERSION.length;
  if (methodEnd === 0 || bytes[methodEnd] !== BLANK || targetAt >= targetEnd) return { refusal: NOT_HTTP };
  let queryAt = -1;
  let isPlain = true;
  for (let i = targetAt; i < targetEnd; i++) {
    const kind = KINDS[bytes[i]!]!;
    if (kind === KEPT) continue;
    if (kind === REFUSED) return { refusal: NOT_HTTP };
    if (kind !== QUERY_BEGINS) isPlain = false;
    else if (queryAt === -1) queryAt = i;
  }
  for (let i = 0; i < VERSION.length; i++) {
    const byte = bytes[targetEnd + i]!;
    const is = VERSION[i] === ZERO ? byte >= ZERO && byte <= NINE : byte === VERSION[i];
    if (!is) return { refusal: NOT_HTTP };
  }
  const minorVersion = bytes[end - 1]! - ZERO;
  if (bytes[end - 3] !== ZERO + 1 || minorVersion > 1) return UNKNOWN_VERSION;
  const method = isGet(bytes, methodEnd) ? GET : KNOWN_METHODS.get(bytes.toString('latin1', 0, methodEnd));
  if (method === undefined) return badRequest('The method is not known here.');
  if (method === 'CONNECT') return { refusal: NO_CONNECT };
  const target = bytes.toString('latin1', targetAt, targetEnd);
  if (!isPlain) return { method, ...percentEncoded(target), minorVersion };
  const path = queryAt === -1 ? target : bytes.toString('latin1', targetAt, queryAt);
  return { method, target, path, minorVersion };
}

function isOfMethod(byte: number): boolean {
  return (byte >= A && byte <= Z) || byte === DASH;
}

function isGet(bytes: Buffer, methodEnd: number): boolean {
  return methodEnd === GET.length && bytes[0] === 0x47 && bytes[1] === 0x45 && bytes[2] === 0x54;
}

const MAYBE_ENCODED = /["<>^`{}\x80-\xff]/g;

/** @param target a latin1 string */
function percentEncoded(target: string): { target: string; path: string } {
  const [path = ''] = target.split('?', 1);
  const encodedPath = encoded(path, ENCODED_IN_PATH);
  return { target: encodedPath + encoded(target.slice(path.length), ENCODED), path: encodedPath };
}

/** Percent-encodes the bytes whose kind is `from` or higher. */
function encoded(text: string, from: number): string {
  return text.replace(MAYBE_ENCODED, (character) => {
    const byte = character.charCodeAt(0);
    return KINDS[byte]! < from ? character : `%${byte.toString(16).toUpperCase()}`;
  });
}

const UNKNOWN_VERSION: { refusal: OwnRefusal } = {
  refusal: {
    status: 505,
    code: 'unsupported_http_version',
    detail: 'Only versions 1.0 and 1.1 of HTTP are spoken here.',
  },
};
