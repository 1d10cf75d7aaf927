// Selects the headers that the gateway forwards.
import type { RequestHead } from './head.ts';

/** Headers for the next hop only (RFC 9110, 7.6.1), and `Proxy`, which CGI programs read as HTTP_PROXY. */
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

/** Headers of the client that are not forwarded: the gateway sets its own. */
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
  'x-cellar-cf',
  'x-request-id',
  'traceparent',
]);

/** Returns the headers for the app's process: alternating names and values. */
export function forwardedHeaders(head: RequestHead): string[] {
  const headers = ['host', head.authority];
  const listed = connectionTokens(head.headers);
  for (let i = 0; i < head.headers.length; i += 2) {
    const name = head.headers[i]!.toLowerCase();
    if (OWN.has(name) || HOP_BY_HOP.has(name) || listed?.has(name)) continue;
    if (!name.startsWith('x-forwarded-')) headers.push(head.headers[i]!, head.headers[i + 1]!);
  }
  return headers;
}

/** Returns the headers of an answer for the client. `raw` is undici's list: alternating names and values, as bytes. */
export function answerHeaders(raw: Buffer[], status: number): string[] {
  const received = raw.map((bytes) => bytes.toString('latin1'));
  const headers: string[] = [];
  const listed = connectionTokens(received);
  for (let i = 0; i < received.length; i += 2) {
    const name = received[i]!.toLowerCase();
    if (HOP_BY_HOP.has(name) || listed?.has(name)) continue;
    if (status === 204 && name === 'content-length') continue;
    headers.push(received[i]!, received[i + 1]!);
  }
  return headers;
}

/** Returns the names in `Connection`, or null when it adds none to the hop-by-hop headers. */
function connectionTokens(headers: string[]): Set<string> | null {
  let tokens: Set<string> | null = null;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i]!.length === 10 && headers[i]!.toLowerCase() === 'connection') {
      tokens = addTokens(tokens, headers[i + 1]!);
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
