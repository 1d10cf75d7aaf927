// A strict parser of header fields (RFC 9112, 5), for requests, responses and trailers.

const NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const NOT_IN_VALUES = /[^\t\x20-\x7e\x80-\xff]/;

/** Hop-by-hop fields (RFC 9110, 7.6.1), and `Proxy`, which CGI programs read as HTTP_PROXY. */
export const HOP_BY_HOP = new Set([
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

/** Maximum number of fields of one head. Node allows 2,000, Apache 100. Each field costs as much time as dozens of bytes. */
export const FIELDS_MAX = 256;
/** Maximum characters of all `Connection` fields together, because each option needs an entry in a set. */
const OPTIONS_LENGTH = 1_024;

/**
 * Parses the field lines of `text` from `from` to `to`, where the last line ends. Returns alternating names and values.
 * Returns null for a malformed line: a folded one, blanks before the colon, line ends other than CRLF.
 * Stops at one field more than `FIELDS_MAX`.
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

/** Removes spaces and tabs at both ends. `trim()` also removes other characters, such as the byte 0xA0. */
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

/** Parses a `Content-Length`, in bytes; returns null when it is not one plain number. */
export function readLength(value: string): number | null {
  // Fifteen digits fit in a double exactly.
  return /^\d{1,15}$/.test(value) ? Number(value) : null;
}

/** Returns the first value of a field. @param fields alternating names and values @param name in lower case */
export function headerValue(fields: readonly string[], name: string): string | undefined {
  for (let i = 0; i < fields.length; i += 2) {
    if (fields[i]!.length === name.length && fields[i]!.toLowerCase() === name) return fields[i + 1];
  }
  return undefined;
}

/** Returns the options in the `Connection` fields, in lower case; null without any, `too long` for too many. */
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

/** Appends the value of another `Cookie` field: HTTP/2 clients may send one field for each cookie (RFC 9113, 8.2.3). */
export function withCookie(cookies: string, value: string): string {
  return cookies === '' ? value : `${cookies}; ${value}`;
}

/** Whether a header is hop-by-hop. @param name in lower case */
export function isHopByHop(name: string): boolean {
  return HOP_BY_HOP.has(name);
}

/**
 * Returns a string as bytes with memory of their own, for a cache. A concatenated string would be walked part by part
 * each time that it is written.
 */
export function keptBytes(text: string, encoding: 'latin1' | 'utf8' = 'latin1'): Buffer {
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(text, encoding));
  bytes.write(text, encoding);
  return bytes;
}
