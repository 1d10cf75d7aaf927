// Header fields (RFC 9112, 5), read strictly: the same for requests, answers and trailers.

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const NOT_IN_VALUES = /[^\t\x20-\x7e\x80-\xff]/;

/** Meant for the next hop only (RFC 9110, 7.6.1), and `Proxy`, which CGI programs read as HTTP_PROXY. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Most fields of one head. Node's limit is 2,000, Apache's 100; each costs as much as dozens of its bytes. */
export const FIELDS_MAX = 256;
/** Most characters of all `Connection` fields: each option costs a place in a set. */
const OPTIONS_LENGTH = 1_024;

/**
 * The field lines of `text` from one place to another, where the last one's line end is: names and values in turn, or
 * null when one is malformed. Folded lines, blanks before the colon and line ends other than CRLF are. Of more than
 * `FIELDS_MAX` one too many is returned.
 */
export function readFields(text: string, from: number, to: number): string[] | null {
  const fields: string[] = [];
  let at = from;
  while (at < to && fields.length <= 2 * FIELDS_MAX) {
    const colon = text.indexOf(':', at);
    const end = text.indexOf('\r\n', at);
    if (end === -1 || colon === -1 || colon > end) return null;
    const name = text.slice(at, colon);
    const value = text.slice(colon + 1, end);
    if (!NAME.test(name) || NOT_IN_VALUES.test(value)) return null;
    fields.push(name, withoutBlanks(value));
    at = end + 2;
  }
  return fields;
}

/** Not `trim()`, which takes bytes of other character sets for blanks. */
function withoutBlanks(value: string): string {
  let from = 0;
  let to = value.length;
  while (from < to && isBlank(value.charCodeAt(from))) from++;
  while (to > from && isBlank(value.charCodeAt(to - 1))) to--;
  return value.slice(from, to);
}

function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** The length that a `Content-Length` value says, in bytes; null when it is not one plain number. */
export function readLength(value: string): number | null {
  // Fifteen digits are counted exactly.
  return /^\d{1,15}$/.test(value) ? Number(value) : null;
}

/** The first value of a field in a flat list. `name` is lower case. */
export function headerValue(fields: readonly string[], name: string): string | undefined {
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]!.length === name.length && fields[i]!.toLowerCase() === name) return fields[i + 1];
  }
  return undefined;
}

/** The options that the `Connection` fields list, in lower case; null when there are none, `too long` when too many. */
export function connectionOptions(fields: readonly string[]): Set<string> | null | 'too long' {
  let options: Set<string> | null = null;
  let length = 0;
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]!.length !== 10 || fields[i]!.toLowerCase() !== 'connection') continue;
    length += fields[i + 1]!.length;
    if (length > OPTIONS_LENGTH) return 'too long';
    options ??= new Set();
    for (const option of fields[i + 1]!.split(',')) options.add(option.trim().toLowerCase());
  }
  return options;
}

/** The cookies of one more `Cookie` field behind others: HTTP/2 clients may send one for each (RFC 9113, 8.2.3). */
export function withCookie(cookies: string, value: string): string {
  return cookies === '' ? value : `${cookies}; ${value}`;
}

/** Whether a header is meant for the next hop only. @param name in lower case */
export function isHopByHop(name: string): boolean {
  return HOP_BY_HOP.has(name);
}

/**
 * The bytes of a text, to be kept: one that was put together of others is walked through part by part each time that
 * it becomes a part of something written. Their memory is their own.
 */
export function keptBytes(text: string, encoding: 'latin1' | 'utf8' = 'latin1'): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding));
  bytes.write(text, encoding);
  return bytes;
}
