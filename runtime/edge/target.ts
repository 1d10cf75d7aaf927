// Where a request goes, as whoever knows the sites decides it.
import type { LocalAnswer } from './answers.ts';
import type { RequestHead } from './http/head/head.ts';
import type { SiteLimits } from './limits/rate-limits.ts';
import type { Backend } from './upstream/backend.ts';

/** Where a request goes, and the limits it is under, if any. */
export type Target = { limits?: SiteLimits } & (
  | { kind: 'proxy'; backend: Backend; call?: Call }
  | { kind: 'respond'; respond: (head: RequestHead) => LocalAnswer | Promise<LocalAnswer> }
);

/** A request by which one app calls another. */
export interface Call {
  /** The socket of the process that it goes to; null: the one for all requests. */
  door: string | null;
  /** Field lines that it gets besides, each with its end. */
  lines: string;
  /** Whether its connection is a call that ends by itself, which is waited for as a request is. */
  endsItself: boolean;
  /** Called once, when it is over. */
  ended(): void;
}

/** A request's own span in its trace, and its caller's. */
export interface Spans {
  spanId: string;
  parentSpanId: string | null;
}

/** Decides where a request goes, once and synchronously. */
export type Resolve = (head: RequestHead, spans: Spans) => Target;
