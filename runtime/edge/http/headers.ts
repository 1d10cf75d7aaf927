// Which headers cross the gateway, and which it writes itself.
import type { AnswerHead } from './answer-head.ts';
import { type ClientConnection, cfJson } from './cf.ts';
import { inOnePiece, isHopByHop } from './fields.ts';
import type { CrossingFields, RequestHead } from './head.ts';
import { isRequestId, isTraceparent, randomHex } from './ids.ts';

/** How our own proxy in front says which connection it has to the client. */
export const CLIENT_PROTOCOL = 'x-cellar-client-protocol';
export const CLIENT_TLS = 'x-cellar-client-tls';

/** Written by the gateway, whoever called. `Forwarded` is left out: no proxy in front of us is known to clean it. */
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
  'x-cellar-proto',
  'x-cellar-cf',
  CLIENT_PROTOCOL,
  CLIENT_TLS,
  'x-request-id',
  'traceparent',
]);

/** Their requests say how long they are even if there is nothing (RFC 9110, 8.6). */
const EXPECT_A_BODY = new Set(['POST', 'PUT', 'PATCH']);

/** Who called, as the headers say it. */
export interface Caller {
  /** The peer's address. */
  peer: string;
  /** Whether the peer's X-Forwarded-* headers are believed. */
  trusted: boolean;
  /** Whether the peer is our own proxy, which says what connection it has to the client. */
  isOwnProxy: boolean;
  /** What is known of where an address is, as `cfJson` takes it. */
  locate(address: string): string;
  /** The client's address, given the `X-Forwarded-For` the peer sent. */
  client(forwardedFor: string | undefined): string;
}

/** A trace that begins here is not sampled upstream. */
const NOT_SAMPLED = '00';

/** What goes to the process, and what it says of the request. */
export interface ForwardedHeaders {
  /** Field lines, each with its end. How the body is framed is not among them. */
  lines: string;
  /** Goes back to the client too. */
  requestId: string;
  /** The trace that the request belongs to: 32 hexadecimal digits. */
  traceId: string;
  /** The request's own span in it, which the process is told as its parent: 16 hexadecimal digits. */
  spanId: string;
  /** The caller's span; null when the trace begins here. */
  parentSpanId: string | null;
  /** The client's address. */
  client: string;
}

/** What a client says of itself and of its request's place in a larger one. Absent unless it may be believed. */
interface Claims {
  requestId?: string;
  traceparent?: string;
  forwardedFor?: string;
  forwardedHost?: string;
  forwardedProto?: string;
  connection: ClientConnection;
}

/** The headers a process gets. `Host` is passed unchanged; what a client claims about itself is not. */
export function forwardedHeaders(head: RequestHead, caller: Caller): ForwardedHeaders {
  const { fields } = head;
  const known = fields.crossing;
  const crossing =
    known !== null && known.located === caller.locate(known.client) ? known : crossingFields(head, caller);
  // The fields are those of one connection, and so of one caller.
  fields.crossing = crossing;
  return identify(crossing.requestId, crossing.traceparent, crossing.lines, crossing.client);
}

function crossingFields(head: RequestHead, caller: Caller): CrossingFields {
  const { authority } = head;
  const claims: Claims = { connection: {} };
  const passed = passOn(head, caller, claims);
  const { forwardedFor, forwardedHost, forwardedProto, requestId, traceparent } = claims;
  const client = caller.client(forwardedFor);
  const located = caller.locate(client);
  const proto = forwardedProto === 'https' ? 'https' : 'http';
  const lines =
    `host: ${authority}\r\n${passed}` +
    `x-forwarded-for: ${forwardedFor === undefined ? '' : `${forwardedFor}, `}${caller.peer}\r\n` +
    `x-forwarded-host: ${forwardedHost ?? authority}\r\nx-forwarded-proto: ${proto}\r\n` +
    // For workerd, which takes both out: it makes the Worker's URL of the first, `request.cf` of the second.
    `x-cellar-proto: ${proto}\r\nx-cellar-cf: ${cfJson(head.minorVersion, claims.connection, located)}\r\n` +
    `x-real-ip: ${client}\r\ncf-connecting-ip: ${client}\r\n`;
  return { lines: inOnePiece(lines), client, located, requestId, traceparent };
}

/**
 * What a process is told of a request, its ids too.
 * @param givenId, traceparent what the caller said; what is not well formed counts for nothing
 * @param before the lines before those of the ids
 */
export function identify(
  givenId: string | undefined,
  traceparent: string | undefined,
  before: string,
  client: string,
): ForwardedHeaders {
  // One id names the trace and the request unless the caller brought either.
  const id = randomHex(16);
  const requestId = givenId !== undefined && isRequestId(givenId) ? givenId : id;
  const spanId = randomHex(8);
  let traceId = id;
  let parentSpanId: string | null = null;
  let flags = NOT_SAMPLED;
  if (traceparent !== undefined && isTraceparent(traceparent)) {
    traceId = traceparent.slice(3, 35);
    parentSpanId = traceparent.slice(36, 52);
    flags = traceparent.slice(53);
  }
  const lines = `${before}x-request-id: ${requestId}\r\ntraceparent: 00-${traceId}-${spanId}-${flags}\r\n`;
  return { lines, requestId, traceId, spanId, parentSpanId, client };
}

/** The head of a request to a process. `lines` are those of `forwardedHeaders`. */
export function requestHead({ method, target, framing, upgrade }: RequestHead, lines: string): string {
  let text = `${method} ${target} HTTP/1.1\r\n${lines}`;
  if (framing === 'chunked') text += 'transfer-encoding: chunked\r\n';
  else if (framing !== 0 || EXPECT_A_BODY.has(method)) text += `content-length: ${framing}\r\n`;
  if (upgrade !== null) text += `connection: upgrade\r\nupgrade: ${upgrade}\r\n`;
  return `${text}\r\n`;
}

/** The lines that may cross. What the gateway writes in its own words is left out, and added to `claims`. */
function passOn({ headers, options }: RequestHead, caller: Caller, claims: Claims): string {
  const { trusted } = caller;
  let lines = '';
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!.toLowerCase();
    const value = headers[i + 1]!;
    if (OWN.has(name)) addClaim(claims, name, value, caller);
    else if (isHopByHop(name) || options?.has(name)) continue;
    else if (trusted || !name.startsWith('x-forwarded-')) lines += `${headers[i]}: ${value}\r\n`;
  }
  return lines;
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

/** The first lines a client gets of a process's answer, each with its end. How the body is framed is not among them. */
export function answerLines({ lines, hasRequestId, hasDate }: AnswerHead, requestId: string): string {
  const known = hasRequestId ? lines : `${lines}x-request-id: ${requestId}\r\n`;
  return hasDate ? known : known + dateLine();
}

let second = 0;
let date = '';

/** The `Date` of an answer, made once a second. */
export function dateLine(): string {
  const now = Math.floor(Date.now() / 1000);
  if (now !== second) {
    second = now;
    date = `date: ${new Date(now * 1000).toUTCString()}\r\n`;
  }
  return date;
}
