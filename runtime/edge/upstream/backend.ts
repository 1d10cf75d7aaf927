// A site's backend, as the gateway sees it: an app's fleet (which manages the app's processes), another host, the control
// plane, or the control UI.
import type { Answer } from '../answers.ts';
import type { Refusal } from '../refusals.ts';
import type { Upstream } from './upstream.ts';

/** What to do with a request for a site. Decided when its head has been read. */
export type Admission =
  /** Send it to a process now, or to another host. */
  | { kind: 'forward'; upstream: Upstream; hop?: Hop }
  /** Queue it, with backpressure on its body, and ask again when `ready` settles. `ready` never rejects. */
  | { kind: 'hold'; ready: Promise<void> }
  /** Answer it without a process. */
  | { kind: 'answer'; answer: Answer }
  | Refused;

/** How a request is sent to another host. */
export interface Hop {
  /** The name of that host. */
  host: string;
  /** Returns header lines that only the other host may read, each with its CRLF. @param isCall whether it is a `Call` */
  lines(isCall: boolean): string;
  /**
   * Call it when the host did not answer, or is shutting down. Resolves when the request may be sent again. Never rejects.
   * @param wasReached whether the host accepted the connection
   */
  again(wasReached: boolean): Promise<void>;
}

/** Answer the request with this refusal. */
export type Refused = Refusal & { kind: 'refuse' };

/** The backend of a site. `admit` is called once per request, and again after each wait or before a retry. */
export interface Backend {
  /** The app's id, or a name such as `control`. Queued requests are counted by it. */
  readonly site: string;
  /** Whether its event streams never end, so that a drain ends them instead of waiting. */
  readonly streamsForEver?: boolean;
  /** The only `x-cellar-` header that a client may send to this backend, in lower case. Default: none. */
  readonly clientHeader?: string;
  admit(): Admission;
}
