// One request as a line of the access log, in the field names of Caddy's, so that tools which read those read these. It is put
// together as bytes: as one text made of dozens it took a fifth of the gateway's own time for a small request.
import { cutText } from '../../../handlers/contract/text.ts';
import { keptBytes } from '../http/head/fields.ts';
import { HEAD_BYTES } from '../refusals.ts';
import type { LineFormat } from './access-log.ts';
import type { ClientInfo } from './client-info.ts';
import type { RequestRecord } from './record.ts';

/** Longest text taken over from a request, in characters: a line stays a line. */
const TEXT_MAX = 1_024;
/** Most bytes of such a text, each character of it escaped as six. */
const TEXT_BYTES = 6 * TEXT_MAX + 2;
/** A text of which nothing is cut or escaped. */
const PLAIN = /^[ !#-[\]-~]{0,1024}$/;
/** The same by characters: from the first to the last, but for quotes and backslashes. */
const FIRST_PLAIN = 0x20;
const LAST_PLAIN = 0x7e;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const ZERO = 0x30;
const POINT = 0x2e;

/** Records of requests as lines of the access log. */
export const ACCESS_LINES: LineFormat<RequestRecord> = {
  // Four long texts, a head's other texts, and what stands between them.
  lineBytes: 4 * TEXT_BYTES + HEAD_BYTES + 2_048,
  put: putAccessLine,
};

/** Where a line is put together, and where it goes on. */
let room: Buffer = Buffer.alloc(0);
let at = 0;

/**
 * What could name a person or let someone in is left out: addresses are cut to /24 and /48, query strings are dropped from the
 * path and the referrer, and no other header is taken over.
 */
function putAccessLine(record: RequestRecord, bytes: Buffer, start: number): number {
  const { clientInfo, site, requestId, traceId } = record;
  if (clientInfo.logged?.site !== site)
    clientInfo.logged = { site, bytes: keptBytes(askerFields(clientInfo, site), 'utf8') };
  room = bytes;
  at = start;
  putTime(record.endedAt);
  put(clientInfo.logged.bytes);
  // Methods, hosts, addresses and ids have been checked: nothing in them needs escaping.
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
  at += room.write(requestId, at, 'latin1');
  const idEnd = at;
  put(TRACE_ID);
  if (traceId !== requestId) at += room.write(traceId, at, 'latin1');
  else for (let i = idAt; i < idEnd; i++) room[at++] = room[i]!;
  put(END);
  return at;
}

const URI = Buffer.from('","uri":');
const BYTES_READ = Buffer.from('},"bytes_read":');
const DURATION = Buffer.from(',"user_id":"","duration":');
const NO_BYTES_READ = Buffer.from('},"bytes_read":0,"user_id":"","duration":');
const SIZE = Buffer.from(',"size":');
const STATUS = Buffer.from(',"status":');
const TRACE_ID = Buffer.from('","trace_id":"');
const END = Buffer.from('"}\n');

function put(bytes: Buffer): void {
  room.set(bytes, at);
  at += bytes.length;
}

/** A text of a few characters in ASCII that needs no escaping: by itself, each costs less than a call that would take them all. */
function putShort(text: string): void {
  for (let i = 0; i < text.length; i++) room[at++] = text.charCodeAt(i);
}

/** A text as JSON. Most are plain, and cost least. */
function putText(text: string): void {
  const from = at;
  room[at++] = QUOTE;
  const end = text.length > TEXT_MAX ? -1 : at + text.length;
  for (let i = 0; at < end; i++) {
    const code = text.charCodeAt(i);
    if (code < FIRST_PLAIN || code > LAST_PLAIN || code === QUOTE || code === BACKSLASH) break;
    room[at++] = code;
  }
  if (at === end) room[at++] = QUOTE;
  else at = from + room.write(quoted(text), from);
}

/** A whole number that is not negative. */
function putNumber(number: number): void {
  let digits = 1;
  for (let least = 10; number >= least; least *= 10) digits++;
  putDigits(number, digits);
}

/** So many digits of a whole number, zeros before it. */
function putDigits(number: number, digits: number): void {
  let rest = number;
  for (let place = at + digits - 1; place >= at; place--) {
    const tenth = Math.floor(rest / 10);
    room[place] = ZERO + rest - tenth * 10;
    rest = tenth;
  }
  at += digits;
}

let second = -1;
let secondStart: Buffer = Buffer.alloc(0);

/** The beginning of a line with its time. The second is mostly that of the line before. */
function putTime(ms: number): void {
  const whole = Math.floor(ms / 1_000);
  if (whole !== second) {
    second = whole;
    secondStart = keptBytes(`{"level":"info","ts":${whole}.`);
  }
  put(secondStart);
  putDigits(Math.floor(ms - whole * 1_000), 3);
}

/** A span in ms as seconds, to the microsecond. */
function putSeconds(ms: number): void {
  const micros = Math.round(ms * 1_000);
  const whole = Math.floor(micros / 1_000_000);
  putNumber(whole);
  room[at++] = POINT;
  putDigits(micros - whole * 1_000_000, 6);
}

/** Types of answers that are kept as bytes. Apps choose them: when there are too many, all are forgotten, and no long one is kept. */
const TYPES_MAX = 64;
const TYPE_LENGTH_MAX = 128;
const types = new Map<string | undefined, Buffer>();

/** What is told of an answer's headers, up to the request's id. */
function answerFields(contentType: string | undefined): Buffer {
  const known = types.get(contentType);
  if (known !== undefined) return known;
  const made = keptBytes(
    `,"resp_headers":{${headerField('Content-Type', contentType)}},"request_id":"`,
    'utf8',
  );
  if ((contentType?.length ?? 0) > TYPE_LENGTH_MAX) return made;
  if (types.size === TYPES_MAX) types.clear();
  // A copy: the text may be a part of a whole head, which would be kept with it.
  types.set(contentType === undefined ? undefined : Buffer.from(contentType).toString(), made);
  return made;
}

function askerFields(
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
  // A terminal obeys some of these, and some readers take one for a line's end.
  return kept.replace(/[\x80-\x9f]/g, (control) => `\\u00${control.charCodeAt(0).toString(16)}`);
}
