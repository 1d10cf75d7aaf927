// The headers of a request from another host of this Cellar. Keeps the headers in which the other host's gateway describes
// the client, and drops those that are only for this host's gateway.
import { isIP } from 'node:net';
import { headerValue } from './fields.ts';
import type { RequestHead } from './head.ts';
import { HOP_PARENT, HOP_TO } from './hop-names.ts';
import type { ForwardedHeaders } from './identified-lines.ts';
import { describedHeaders, ITSELF } from './service-headers.ts';

/**
 * The purpose of a request from another host. `app`, `preview`: a visitor's request to an app or a preview. `call`: a
 * call to an app by another app, or with an event such as an e-mail. `wake`: wakes an app. `classes`: asks which Durable
 * Object classes an app has. `host`: a call of the control plane's `HOST` binding. `ping`: asks whether this host answers.
 */
export type Hopping = 'app' | 'preview' | 'call' | 'wake' | 'classes' | 'host' | 'ping';

/** Returns the headers for a process. The other host has dropped headers that clients may not set, and has added its own. */
export function hostsHeaders(head: RequestHead, isSampled: boolean): ForwardedHeaders {
  const client = headerValue(head.headers, 'x-real-ip') ?? '';
  // An app that calls another may set any header, so its `x-real-ip` proves nothing.
  const isVisitor = headerValue(head.headers, HOP_TO) !== 'call' && isIP(client) !== 0;
  // Both hosts use the same span for the request, and only the app's host records it.
  const parentSpanId = headerValue(head.headers, HOP_PARENT) ?? null;
  return describedHeaders(head, isSampled, isVisitor ? client : ITSELF, { parentSpanId });
}
