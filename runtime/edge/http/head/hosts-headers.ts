// The headers of a request from another host of this Cellar: all that its gateway wrote about the client, without those that
// are for this host.
import { isIP } from 'node:net';
import { headerValue } from './fields.ts';
import type { RequestHead } from './head.ts';
import { HOP_PARENT, HOP_TO } from './hop-names.ts';
import type { ForwardedHeaders } from './identified-lines.ts';
import { describedHeaders, ITSELF } from './service-headers.ts';

/**
 * The purpose of a request from another host: a visitor's request to an app, or to one of its previews; a call by another app; the
 * wake of an app; the question which classes of Durable Objects it has; a HOST call; or the question whether this host answers.
 */
export type Hopping = 'app' | 'preview' | 'call' | 'wake' | 'classes' | 'host' | 'ping';

/** Returns the headers for a process. The other host has cleaned those of the client, and has written the rest. */
export function hostsHeaders(head: RequestHead, isSampled: boolean): ForwardedHeaders {
  const client = headerValue(head.headers, 'x-real-ip') ?? '';
  // An app that calls another may set any header.
  const isVisitor = headerValue(head.headers, HOP_TO) !== 'call' && isIP(client) !== 0;
  // One request is one span, which the home exports.
  const parentSpanId = headerValue(head.headers, HOP_PARENT) ?? null;
  return describedHeaders(head, isSampled, isVisitor ? client : ITSELF, { parentSpanId });
}
