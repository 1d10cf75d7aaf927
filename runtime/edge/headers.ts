// Which headers cross the gateway, and which it writes itself.
import type { RequestHead } from './head.ts';
import { isRequestId, isTraceparent, newTraceparent, randomHex } from './ids.ts';

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

/** Written by the gateway, whoever called. `Forwarded` is left out: no proxy in front of us is known to clean it. */
const OWN = new Set([
  'host',
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
  'x-request-id',
  'traceparent',
]);

/** Who called, as the headers say it. */
export interface Caller {
  /** The peer's address. */
  peer: string;
  /** Whether the peer's X-Forwarded-* headers are believed. */
  trusted: boolean;
  /** The client's address, given the `X-Forwarded-For` the peer sent. */
  client(forwardedFor: string | undefined): string;
}

/** What goes to the process: headers in turn for undici, and the id that goes back to the client too. */
export interface ForwardedHeaders {
  headers: string[];
  requestId: string;
  /** The trace that the request belongs to: 32 hexadecimal digits. */
  traceId: string;
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
}

/** The headers a process gets. `Host` is passed unchanged; what a client claims about itself is not. */
export function forwardedHeaders(head: RequestHead, caller: Caller): ForwardedHeaders {
  const headers = ['host', head.authority];
  const claims = passOn(head.headers, caller.trusted, headers);
  const client = caller.client(claims.forwardedFor);
  // One id names the trace and the request unless the caller brought either.
  const id = randomHex(16);
  const requestId = claims.requestId ?? id;
  const traceparent = claims.traceparent ?? newTraceparent(id);
  const proto = claims.forwardedProto === 'https' ? 'https' : 'http';
  headers.push(
    'x-forwarded-for',
    claims.forwardedFor === undefined ? caller.peer : `${claims.forwardedFor}, ${caller.peer}`,
    'x-forwarded-host',
    claims.forwardedHost ?? head.authority,
    'x-forwarded-proto',
    proto,
    // For workerd, which takes it out and makes the Worker's URL of it.
    'x-cellar-proto',
    proto,
    'x-real-ip',
    client,
    'cf-connecting-ip',
    client,
    'x-request-id',
    requestId,
    'traceparent',
    traceparent,
  );
  return { headers, requestId, traceId: traceparent.slice(3, 35), client };
}

/** Adds to `headers` what may cross of `received`, and returns what the gateway writes in its own words. */
function passOn(received: string[], trusted: boolean, headers: string[]): Claims {
  const listed = connectionTokens(received);
  const claims: Claims = {};
  for (let i = 0; i < received.length; i += 2) {
    const name = received[i]!.toLowerCase();
    const value = received[i + 1]!;
    if (OWN.has(name)) addClaim(claims, name, value, trusted);
    else if (HOP_BY_HOP.has(name) || listed?.has(name)) continue;
    else if (trusted || !name.startsWith('x-forwarded-')) headers.push(received[i]!, value);
  }
  return claims;
}

function addClaim(claims: Claims, name: string, value: string, trusted: boolean): void {
  if (name === 'x-request-id') {
    if (isRequestId(value)) claims.requestId ??= value;
  } else if (name === 'traceparent') {
    if (isTraceparent(value)) claims.traceparent ??= value;
  } else if (trusted) {
    if (name === 'x-forwarded-host') claims.forwardedHost ??= value;
    else if (name === 'x-forwarded-proto') claims.forwardedProto ??= value;
    else if (name === 'x-forwarded-for') {
      claims.forwardedFor = claims.forwardedFor === undefined ? value : `${claims.forwardedFor}, ${value}`;
    }
  }
}

/** The headers a client gets of a process's answer. `raw` is undici's list: names and values in turn, as bytes. */
export function answerHeaders(raw: Buffer[], status: number, requestId: string): string[] {
  const headers: string[] = [];
  const listed = rawConnectionTokens(raw);
  let hasRequestId = false;
  for (let i = 0; i < raw.length; i += 2) {
    const received = raw[i]!.toString('latin1');
    const name = received.toLowerCase();
    if (HOP_BY_HOP.has(name) || listed?.has(name)) continue;
    // A 204 has no length (RFC 9110, 8.6); clients have been seen to wait for the bytes.
    if (status === 204 && name === 'content-length') continue;
    if (name === 'x-request-id') hasRequestId = true;
    headers.push(received, raw[i + 1]!.toString('latin1'));
  }
  if (!hasRequestId) headers.push('x-request-id', requestId);
  return headers;
}

/** The names `Connection` lists, or null when it lists none that would not be dropped anyway. */
function connectionTokens(headers: string[]): Set<string> | null {
  let tokens: Set<string> | null = null;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.length === 10 && headers[i]!.toLowerCase() === 'connection') {
      tokens = addTokens(tokens, headers[i + 1]!);
    }
  }
  return tokens;
}

function rawConnectionTokens(headers: Buffer[]): Set<string> | null {
  let tokens: Set<string> | null = null;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.length === 10 && headers[i]!.toString('latin1').toLowerCase() === 'connection') {
      tokens = addTokens(tokens, headers[i + 1]!.toString('latin1'));
    }
  }
  return tokens;
}

function addTokens(tokens: Set<string> | null, value: string): Set<string> | null {
  let all = tokens;
  for (const part of value.split(',')) {
    const token = part.trim().toLowerCase();
    if (token === '' || token === 'close' || HOP_BY_HOP.has(token)) continue;
    all ??= new Set();
    all.add(token);
  }
  return all;
}
