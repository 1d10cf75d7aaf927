// Formats a request as a line of the access log, with the field names of Caddy's log: tools for that log can read the line.
// The line is written as bytes: concatenating strings took a fifth of the gateway's own time for a small request.
import { cutText } from '../../../handlers/contract/text.ts';
import { keptBytes } from '../http/head/fields.ts';
import { HEAD_BYTES } from '../refusals.ts';
import type { LineFormat } from './access-log.ts';
import type { ClientInfo } from './client-info.ts';
import type { RequestRecord } from './record.ts';

/** Longest string copied from a request, in characters. */
const TEXT_MAX = 1_024;
/** Maximum bytes of a string in the line with its quotes: each character may be escaped as six. */
const TEXT_BYTES = 6 * TEXT_MAX + 2;
/** A string that needs no truncation and no escaping. */
const PLAIN = /^[ !#-[\]-~]{0,1024}$/;
/** Lowest code of a character in `PLAIN`. */
const FIRST_PLAIN = 0x20;
/** Highest code of a character in `PLAIN`. In the range, only quotes and backslashes are not plain. */
const LAST_PLAIN = 0x7e;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ZERO = 0x30;
const POINT = 0x2e;

/**
 * Returns the format of request records as lines of the access log.
 * @param host the name of this host, when there are several; null in a Cellar of one host
 */
export function accessLines(host: string | null): LineFormat<RequestRecord> {
  const end = host === null ? END : Buffer.from(`","host":${quoted(host)}}\n`);
  return {
    // Up to six strings of `TEXT_BYTES`, the other strings of the head, and the field names between them.
    lineBytes: 6 * TEXT_BYTES + HEAD_BYTES + 2_048,
    put: (record, bytes, start) => putAccessLine(record, bytes, start, end),
  };
}

/** The buffer that the current line is written to. */
let line: Buffer = Buffer.alloc(0);
/** The write position in `line`. */
let at = 0;

/**
 * Writes the line of a record, without credentials and with little personal data. Truncates addresses to /24 (IPv6: /48),
 * and drops the query strings of the path and the referrer. Of the request's other headers, copies only `User-Agent` and
 * the host name. Returns the position after the line.
 */
function putAccessLine(record: RequestRecord, bytes: Buffer, start: number, end: Buffer): number {
  const { clientInfo, site, requestId, traceId } = record;
  if (clientInfo.logged?.site !== site)
    clientInfo.logged = { site, bytes: keptBytes(clientFields(clientInfo, site), 'utf8') };
  line = bytes;
  at = start;
  putTime(record.endedAt);
  put(clientInfo.logged.bytes);
  // Methods, hosts, addresses and ids are validated: they need no escaping.
  putShort(record.method);
  put(URI);
  putText(record.path);
  if (record.bytesIn === 0) put(NO_BYTES_READ);
  else {
    put(BYTES_READ);
    putNumber(record.bytesIn);
    put(DURATION);
  }
  putSeconds(record.durationMs);
  put(SIZE);
  putNumber(record.bytesOut);
  put(STATUS);
  putNumber(record.status);
  put(answerFields(record.contentType));
  const idAt = at;
  at += line.write(requestId, at, 'latin1');
  const idEnd = at;
  put(TRACE_ID);
  if (traceId !== requestId) at += line.write(traceId, at, 'latin1');
  else for (let i = idAt; i < idEnd; i++) line[at++] = line[i]!;
  if (record.home !== null) {
    put(HOME);
    // `HOME` and `end` contain its quotes.
    at += line.write(quoted(record.home).slice(1, -1), at);
  }
  put(end);
  return at;
}

const URI = Buffer.from('","uri":');
const BYTES_READ = Buffer.from('},"bytes_read":');
const DURATION = Buffer.from(',"user_id":"","duration":');
const NO_BYTES_READ = Buffer.from('},"bytes_read":0,"user_id":"","duration":');
const SIZE = Buffer.from(',"size":');
const STATUS = Buffer.from(',"status":');
const TRACE_ID = Buffer.from('","trace_id":"');
const HOME = Buffer.from('","home":"');
const END = Buffer.from('"}\n');

function put(bytes: Buffer): void {
  line.set(bytes, at);
  at += bytes.length;
}

/** Writes a short ASCII string without escapes. For a few characters, a loop is faster than one call of `write`. */
function putShort(text: string): void {
  for (let i = 0; i < text.length; i++) line[at++] = text.charCodeAt(i);
}

/** Writes a string as JSON, with a fast path for plain ones. */
function putText(text: string): void {
  const from = at;
  line[at++] = QUOTE;
  const end = text.length > TEXT_MAX ? -1 : at + text.length;
  for (let i = 0; at < end; i++) {
    const code = text.charCodeAt(i);
    if (code < FIRST_PLAIN || code > LAST_PLAIN || code === QUOTE || code === BACKSLASH) break;
    line[at++] = code;
  }
  if (at === end) line[at++] = QUOTE;
  else at = from + line.write(quoted(text), from);
}

/** Writes a non-negative integer. */
function putNumber(number: number): void {
  let digits = 1;
  for (let least = 10; number >= least; least *= 10) digits++;
  putDigits(number, digits);
}

/** Writes an integer with a fixed number of digits, padded with zeros. */
function putDigits(number: number, digits: number): void {
  let rest = number;
  for (let place = at + digits - 1; place >= at; place--) {
    const tenth = Math.floor(rest / 10);
    line[place] = ZERO + rest - tenth * 10;
    rest = tenth;
  }
  at += digits;
}

let second = -1;
let secondStart: Buffer = Buffer.alloc(0);

/** Writes the start of a line with its timestamp. Caches the text of the current second. */
function putTime(ms: number): void {
  const whole = Math.floor(ms / 1_000);
  if (whole !== second) {
    second = whole;
    secondStart = keptBytes(`{"level":"info","ts":${whole}.`);
  }
  put(secondStart);
  putDigits(Math.floor(ms - whole * 1_000), 3);
}

/** Writes a duration in ms as seconds, with microseconds. */
function putSeconds(ms: number): void {
  const micros = Math.round(ms * 1_000);
  const whole = Math.floor(micros / 1_000_000);
  putNumber(whole);
  line[at++] = POINT;
  putDigits(micros - whole * 1_000_000, 6);
}

/** Maximum number of cached content types. Apps choose them, so a full cache is cleared. */
const TYPES_MAX = 64;
/** Longest content type that is cached, in characters. */
const TYPE_LENGTH_MAX = 128;
const types = new Map<string | undefined, Buffer>();

/** Returns the bytes of a line from the response's headers to the request's id. */
function answerFields(contentType: string | undefined): Buffer {
  const known = types.get(contentType);
  if (known !== undefined) return known;
  const made = keptBytes(
    `,"resp_headers":{${headerField('Content-Type', contentType)}},"request_id":"`,
    'utf8',
  );
  if ((contentType?.length ?? 0) > TYPE_LENGTH_MAX) return made;
  if (types.size === TYPES_MAX) types.clear();
  // A copy: the string may be a slice of a whole head, which would stay in memory with it.
  types.set(contentType === undefined ? undefined : Buffer.from(contentType).toString(), made);
  return made;
}

function clientFields(
  { peerNetwork, clientNetwork, protocol, host, userAgent, referrer }: ClientInfo,
  site: string,
): string {
  const headers = fields(headerField('User-Agent', userAgent), headerField('Referer', referrer));
  return (
    `,"logger":"http.log.access","msg":"handled request","site":"${site}","request":{"remote_ip":"${peerNetwork}",` +
    `"client_ip":"${clientNetwork}","proto":"${protocol}","host":"${host}","headers":{${headers}},"method":"`
  );
}

function headerField(name: string, value: string | undefined): string {
  return value === undefined ? '' : `"${name}":[${PLAIN.test(value) ? `"${value}"` : quoted(value)}]`;
}

function fields(one: string, other: string): string {
  return one === '' || other === '' ? one + other : `${one},${other}`;
}

function quoted(value: string): string {
  const kept = JSON.stringify(cutText(value, TEXT_MAX));
  // C1 control characters: terminals execute some of them, and some log readers take U+0085 for a line end.
  return kept.replace(/[\x80-\x9f]/g, (control) => `\\u00${control.charCodeAt(0).toString(16)}`);
}
