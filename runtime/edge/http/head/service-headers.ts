// The headers of a request from one app to another. Keeps all headers that the calling Worker set, as Cloudflare does,
// except those that only the host may set.
import { HOP_BY_HOP, withCookie } from './fields.ts';
import type { RequestHead } from './head.ts';
import { HOP_NAMES } from './hop-names.ts';
import { type ForwardedHeaders, IdentifiedLines } from './identified-lines.ts';

/** The kind of an app's call, such as `fetch`, and the number of its binding. Written by the calling app's workerd. */
export const CALLING_HEADER = 'x-cellar-calling';
/** Describes the call to the called app, as JSON. */
export const CALL_HEADER = 'x-cellar-call';
/** Names the Durable Object that is called, as JSON. Written by the calling app's workerd. */
export const OBJECT_HEADER = 'x-cellar-object';
/**
 * The name of the called script of a dispatch namespace, and a random text for the call. Written by the calling app's
 * process.
 */
export const SCRIPT_HEADER = 'x-cellar-script';
/** In a response: the script does not exist. The value is the call's random text, which no script can forge. */
export const NO_SCRIPT_HEADER = 'x-cellar-no-script';
/**
 * In a call of a script with an outbound Worker. From the calling process to the host, and from the host to the
 * outbound Worker: the values of the Worker's parameters, as JSON. Between the host and the script: a random text that
 * stands for these values.
 */
export const OUTBOUND_HEADER = 'x-cellar-outbound';
/** In a response: what the `fetch()` of the called entrypoint or Durable Object threw, as JSON. */
export const THROWN_HEADER = 'x-cellar-thrown';
/** `http` or `https`. workerd removes it, and makes the Worker's URL from it. */
export const PROTO_HEADER = 'X-Cellar-Proto';
/** `request.cf` as JSON. workerd removes it. */
export const CF_HEADER = 'X-Cellar-Cf';

/** The client's address in the records of calls, unless `Call.client` is another. */
export const ITSELF = '127.0.0.1';

/** Returns the headers for a process. The caller is a process on this host, which is trusted to describe the client. */
export function serviceHeaders(head: RequestHead, isSampled: boolean): ForwardedHeaders {
  return describedHeaders(head, isSampled, ITSELF);
}

/**
 * Returns the headers for a process, for a caller that is trusted to describe the client.
 * @param client the client's address
 * @param continued see `IdentifiedLines`
 */
export function describedHeaders(
  { authority, headers, options }: RequestHead,
  isSampled: boolean,
  client: string,
  continued: { parentSpanId: string | null } | null = null,
): ForwardedHeaders {
  const claims = new Map<string, string>();
  let passed = '';
  let cookies = '';
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!.toLowerCase();
    const value = headers[i + 1]!;
    const kind = KINDS.get(name);
    if (kind === 'claimed') claims.set(name, value);
    else if (kind === 'own' || options?.has(name)) continue;
    else if (kind === 'cookie') cookies = withCookie(cookies, value);
    else passed += `${headers[i]}: ${value}\r\n`;
  }
  if (cookies !== '') passed += `cookie: ${cookies}\r\n`;
  const proto = claims.get('x-cellar-proto') === 'https' ? 'https' : 'http';
  const cf = claims.get('x-cellar-cf') ?? '{}';
  const lines = `host: ${authority}\r\n${passed}x-cellar-proto: ${proto}\r\nx-cellar-cf: ${cf}\r\n`;
  return new IdentifiedLines(
    lines,
    claims.get('x-request-id'),
    claims.get('traceparent'),
    isSampled,
    null,
    false,
    continued,
  ).identify(client);
}

const OWN = [
  ...[
    'host',
    'content-length',
    'expect',
    CALLING_HEADER,
    CALL_HEADER,
    OBJECT_HEADER,
    SCRIPT_HEADER,
    OUTBOUND_HEADER,
  ],
  ...HOP_NAMES,
  ...HOP_BY_HOP,
];
const CLAIMED = ['x-request-id', 'traceparent', PROTO_HEADER.toLowerCase(), CF_HEADER.toLowerCase()];
/** How a header is handled, by its name in lower case. One map for all kinds, because most headers have no entry. */
const KINDS = new Map<string, 'own' | 'claimed' | 'cookie'>([
  ...OWN.map((name) => [name, 'own'] as const),
  ...CLAIMED.map((name) => [name, 'claimed'] as const),
  ['cookie', 'cookie'],
]);
