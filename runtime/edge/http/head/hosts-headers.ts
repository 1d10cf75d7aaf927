// The headers of a request from another host of this Cellar: all that its gateway wrote about the client, without those that
// are for this host.
import { isIP } from 'node:net';
import { headerValue } from './fields.ts';
import type { RequestHead } from './head.ts';
import type { ForwardedHeaders } from './identified-lines.ts';
import { CALL_HEADER, describedHeaders, ITSELF } from './service-headers.ts';

/** Proves that a request comes from a host of this Cellar. */
export const HOP_KEY = 'x-cellar-hosts-key';
/** What the request is for: see `Hopping`. */
export const HOP_TO = 'x-cellar-to';
/** The id of the app; of a preview's app. */
export const HOP_APP = 'x-cellar-app';
/** The generation of the app in the route by which it was sent here. */
export const HOP_GENERATION = 'x-cellar-generation';
/** How many hosts have passed the request on. */
export const HOP_COUNT = 'x-cellar-hops';
/** The listening socket of the app's process, other than the default one. */
export const HOP_SOCKET = 'x-cellar-socket';

/** Marks a HOST call that another host has passed on, for the server of such calls. */
export const PASSED = 'x-cellar-passed';

/**
 * What a request from another host is for: a visitor's request to an app, or to one of its previews; a call by another app; the
 * wake of an app; a HOST call; or the question whether this host answers.
 */
export type Hopping = 'app' | 'preview' | 'call' | 'wake' | 'host' | 'ping';

const OWN = new Set([
  'host',
  'content-length',
  'expect',
  CALL_HEADER,
  HOP_KEY,
  HOP_TO,
  HOP_APP,
  HOP_GENERATION,
  HOP_COUNT,
  HOP_SOCKET,
  PASSED,
]);

/** Returns the headers for a process. The other host has cleaned those of the client, and has written the rest. */
export function hostsHeaders(head: RequestHead, isSampled: boolean): ForwardedHeaders {
  const client = headerValue(head.headers, 'x-real-ip') ?? '';
  // An app that calls another may set any header.
  const isVisitor = headerValue(head.headers, HOP_TO) !== 'call' && isIP(client) !== 0;
  return describedHeaders(head, isSampled, OWN, isVisitor ? client : ITSELF);
}
