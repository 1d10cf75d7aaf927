// Which headers the gateway forwards, and which it writes itself.

import { wallClock } from '../../../sockets/clock.ts';
import type { AnswerHead } from './answer-head.ts';
import { type ClientConnection, COLO, cfJson, countryOf, countryOfHeader } from './cf.ts';
import { isHopByHop, keptBytes, withCookie } from './fields.ts';
import type { CrossingFields, RequestHead } from './head.ts';
import { type ForwardedHeaders, IdentifiedLines } from './identified-lines.ts';
import { isRequestId, isTraceparent } from './ids.ts';
import type { HeadPart } from './outgoing.ts';

/** Header in which our own proxy (Caddy) reports the client's HTTP version. */
export const CLIENT_PROTOCOL = 'x-cellar-client-protocol';
/** Header in which our own proxy reports the client's TLS version and cipher. */
export const CLIENT_TLS = 'x-cellar-client-tls';

/**
 * Headers that the gateway writes itself, or drops. Some reuse a valid or trusted value of the request. `Forwarded` is
 * dropped, because no proxy in front of us is known to remove a forged one.
 */
const OWN = new Set([
  'host',
  'content-length',
  'expect',
  'forwarded',
  'x-real-ip',
  'cf-connecting-ip',
  'cf-connecting-ipv6',
  'true-client-ip',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  CLIENT_PROTOCOL,
  CLIENT_TLS,
  'x-request-id',
  'traceparent',
]);

/** Headers of Cloudflare's edge, which may be in front of Cellar. Accepted only from a trusted proxy. */
const OF_CLOUDFLARE = /^(?:cf-|cdn-loop$)/;

/** Values of `X-Forwarded-Proto` for TLS. Traefik writes `wss` for a WebSocket. */
const SECURE = /^(?:https|wss)$/i;

/** Prefix of Cellar's own headers. Never forwarded from a client, except a backend's `clientHeader`. */
const INTERNAL = 'x-cellar-';

/** Methods whose requests state a length even without a body (RFC 9110, 8.6). */
const EXPECT_A_BODY = new Set(['POST', 'PUT', 'PATCH']);

/** The client's connection, as `forwardedHeaders` needs it. */
export interface Caller {
  peer: string;
  /** Whether the peer's X-Forwarded-* headers are trusted. */
  trusted: boolean;
  /** Whether the peer is our own proxy (Caddy), which reports the protocol and TLS version of the client's connection. */
  isOwnProxy: boolean;
  /** Whether spans of its requests are exported. */
  isSampled: boolean;
  /** Returns the location of an address, as `cfJson` takes it. */
  locate(address: string): string;
  /** Returns the client's address, given the `X-Forwarded-For` of the peer. */
  client(forwardedFor: string | undefined): string;
  /** Whether the request comes from a trusted proxy other than our own, given the `X-Forwarded-For` of the peer. */
  isByTrustedProxy(forwardedFor: string | undefined): boolean;
}

/** What the peer claims about the client and the trace. A field is set only if the peer is trusted for it. */
interface Claims {
  requestId?: string;
  traceparent?: string;
  forwardedFor?: string;
  forwardedHost?: string;
  forwardedProto?: string;
  connection: ClientConnection;
  /** Lines of Cloudflare's headers, by name in lower case. */
  ofCloudflare?: Map<string, string>;
}

/** Returns the headers for a process. The peer's claims about the client are forwarded only if the peer is trusted. */
export function forwardedHeaders(head: RequestHead, caller: Caller): ForwardedHeaders {
  const { fields } = head;
  const known = fields.crossing;
  const crossing =
    known !== null && known.located === caller.locate(known.client) ? known : crossingFields(head, caller);
  // Can be cached: the fields belong to one connection, which has one request at a time.
  fields.crossing = crossing;
  return crossing.lines.identify(crossing.client);
}

function crossingFields(head: RequestHead, caller: Caller): CrossingFields {
  const { authority } = head;
  const claims: Claims = { connection: {} };
  const passed = passOn(head, caller, claims);
  const { forwardedFor, forwardedHost, forwardedProto, requestId, traceparent } = claims;
  const client = caller.client(forwardedFor);
  const located = caller.locate(client);
  const proto = SECURE.test(forwardedProto ?? '') ? 'https' : 'http';
  const ofCloudflare = caller.isByTrustedProxy(forwardedFor) ? claims.ofCloudflare : undefined;
  const ofEdge = ofCloudflare?.get('cf-ipcountry');
  const country = ofEdge === undefined ? countryOf(located) : countryOfHeader(ofEdge.split(': ')[1]?.trim());
  const lines =
    `host: ${authority}\r\n${passed}${[...(ofCloudflare?.values() ?? [])].join('')}` +
    (country === null || ofEdge !== undefined ? '' : `cf-ipcountry: ${country}\r\n`) +
    `x-forwarded-for: ${forwardedPath(forwardedFor, caller)}\r\n` +
    `x-forwarded-host: ${forwardedHost ?? authority}\r\nx-forwarded-proto: ${proto}\r\n` +
    // workerd removes both: it makes the Worker's URL from `x-cellar-proto`, and `request.cf` from `x-cellar-cf`.
    `x-cellar-proto: ${proto}\r\nx-cellar-cf: ${cfJson(head.minorVersion, claims.connection, located)}\r\n` +
    `x-real-ip: ${client}\r\ncf-connecting-ip: ${client}\r\n`;
  const colo = ofCloudflare?.has('cf-ray') ? null : COLO;
  return {
    lines: new IdentifiedLines(lines, requestId, traceparent, caller.isSampled, colo),
    client,
    located,
    country,
  };
}

/** Returns the addresses on the request's path, the client first. Our own proxy has already added its peer. */
function forwardedPath(forwardedFor: string | undefined, { peer, isOwnProxy }: Caller): string {
  if (forwardedFor === undefined) return peer;
  return isOwnProxy ? forwardedFor : `${forwardedFor}, ${peer}`;
}

const LINE_END = ' HTTP/1.1\r\n';
/** Tells the client that the connection closes after this response. */
export const CLOSES = 'connection: close\r\n';

/** Returns the head of a request to a process. @param lines of `forwardedHeaders` @param more other lines with their CRLF */
export function requestHead(
  { method, target, framing, upgrade }: RequestHead,
  lines: Buffer,
  more: string,
): HeadPart[] {
  let end = more;
  if (framing === 'chunked') end += 'transfer-encoding: chunked\r\n';
  else if (framing !== 0 || EXPECT_A_BODY.has(method)) end += `content-length: ${framing}\r\n`;
  if (upgrade !== null) end += `connection: upgrade\r\nupgrade: ${upgrade}\r\n`;
  return [method, ' ', target, LINE_END, lines, `${end}\r\n`];
}

/** Returns the lines to forward. Headers in `OWN`, and those of Cloudflare, are left out; they may be added to `claims`. */
function passOn({ headers, options }: RequestHead, caller: Caller, claims: Claims): string {
  const { trusted } = caller;
  let lines = '';
  let cookies = '';
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!.toLowerCase();
    const value = headers[i + 1]!;
    if (OWN.has(name)) addClaim(claims, name, value, caller);
    else if (isHopByHop(name) || options?.has(name) || name.startsWith(INTERNAL)) continue;
    else if (OF_CLOUDFLARE.test(name)) {
      claims.ofCloudflare ??= new Map();
      const before = claims.ofCloudflare.get(name) ?? '';
      claims.ofCloudflare.set(name, `${before}${headers[i]}: ${value}\r\n`);
    } else if (name === 'cookie') cookies = withCookie(cookies, value);
    else if (trusted || !name.startsWith('x-forwarded-')) lines += `${headers[i]}: ${value}\r\n`;
  }
  return cookies === '' ? lines : `${lines}cookie: ${cookies}\r\n`;
}

function addClaim(claims: Claims, name: string, value: string, { trusted, isOwnProxy }: Caller): void {
  if (name === 'x-request-id') {
    if (isRequestId(value)) claims.requestId ??= value;
  } else if (name === 'traceparent') {
    if (isTraceparent(value)) claims.traceparent ??= value;
  } else if (name === CLIENT_PROTOCOL) {
    if (isOwnProxy) claims.connection.protocol = value;
  } else if (name === CLIENT_TLS) {
    if (isOwnProxy) claims.connection.tls = value;
  } else if (trusted) {
    if (name === 'x-forwarded-host') claims.forwardedHost ??= value;
    else if (name === 'x-forwarded-proto') claims.forwardedProto ??= value;
    else if (name === 'x-forwarded-for') {
      claims.forwardedFor = claims.forwardedFor === undefined ? value : `${claims.forwardedFor}, ${value}`;
    }
  }
}

/** Returns the header lines of a 1xx response for the client, each with its CRLF. */
export function answerLines({ lines, hasRequestId, hasDate }: AnswerHead, requestId: string): string {
  const known = hasRequestId ? lines : `${lines}x-request-id: ${requestId}\r\n`;
  return hasDate ? known : known + dateLine();
}

/**
 * Returns the head of a process's response for the client.
 * @param requestId must stay unchanged until the head is written
 * @param chunked whether the body is sent in chunks
 * @param ends whether the connection closes after the response
 */
export function answerHead(
  { start, hasRequestId, hasDate }: AnswerHead,
  requestId: Buffer,
  chunked: boolean,
  ends: boolean,
): HeadPart[] {
  if (!hasRequestId && !hasDate && !chunked && !ends) return [start, requestId, usualEnd()];
  const date = hasDate ? '' : dateLine();
  const end = `${date}${chunked ? 'transfer-encoding: chunked\r\n' : ''}${ends ? CLOSES : ''}\r\n`;
  return hasRequestId ? [start, end] : [start, requestId, '\r\n', end];
}

let second = 0;
let date = '';
let endWithDate: Buffer = Buffer.alloc(0);

/** Returns the `Date` header line, which is updated once a second. */
export function dateLine(): string {
  keepTime();
  return date;
}

/** Returns the end of a usual head, after the request's id: the `Date` and the empty line. */
function usualEnd(): Buffer {
  keepTime();
  return endWithDate;
}

function keepTime(): void {
  const current = Math.floor(wallClock() / 1000);
  if (current === second) return;
  second = current;
  date = `date: ${new Date(current * 1000).toUTCString()}\r\n`;
  endWithDate = keptBytes(`\r\n${date}\r\n`);
}
