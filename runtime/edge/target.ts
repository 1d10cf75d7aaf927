// Where a request goes, as a `Resolve` function decides it.
import type { LocalAnswer } from './answers.ts';
import type { RequestHead } from './http/head/head.ts';
import type { SiteLimits } from './limits/rate-limits.ts';
import type { Backend } from './upstream/backend.ts';

/** Answers a request without a process. @param client the client's address */
export type Respond = (head: RequestHead, client: string) => LocalAnswer | Promise<LocalAnswer>;

/**
 * Where a request goes, and its rate limits, if any. `share`: a key, such as an app's id; the number of open requests with
 * the same key is limited. Default: no limit.
 */
export type Target = { limits?: SiteLimits; share?: string } & (
  | { kind: 'proxy'; backend: Backend; call?: Call }
  | { kind: 'respond'; respond: Respond }
);

/** A request to an app by another app, or with an event such as an e-mail; or a `HOST` call that another host passed on. */
export interface Call {
  /** Name of the listening socket of the process that receives the call; null for the default one. */
  socketName: string | null;
  /** Additional header lines, each with its CRLF. */
  lines: string;
  /** Additional header lines, each with its CRLF, when the call goes to another host. Default: none. */
  hopLines?: string;
  /** Whether the call's tunnel ends by itself. A drain then waits for the tunnel as for a request. */
  endsItself: boolean;
  /** The client's address for the log. Default: `127.0.0.1`. */
  client?: string;
  /** Called once, when the call is over. */
  ended(): void;
}

/** The ids of a request's own span in its trace, and of its caller's span. */
export interface Spans {
  spanId: string;
  parentSpanId: string | null;
}

/** Decides where a request goes, once and synchronously. */
export type Resolve = (head: RequestHead, spans: Spans) => Target;
