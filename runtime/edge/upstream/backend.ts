// A site's backend, as the gateway sees it: an app's fleet (which manages the app's processes), another host, or the control
// plane.
import type { Refusal } from '../refusals.ts';
import type { Upstream } from './upstream.ts';

/** What to do with a request for a site. Decided when its head has been read. */
export type Admission =
  /** Send it to a process now, or to another host. */
  | { kind: 'forward'; upstream: Upstream; hop?: Hop }
  /** Queue it, with backpressure on its body, and ask again when `ready` settles. `ready` never rejects. */
  | { kind: 'hold'; ready: Promise<void> }
  | Refused;

/** How a request is sent to another host. */
export interface Hop {
  /** The name of that host. */
  host: string;
  /** Returns header lines that only the other host may read, each with its CRLF. @param isCall whether another app calls */
  lines(isCall: boolean): string;
  /**
   * Call it when the host did not answer. Settles when the request may be sent again. Never rejects.
   * @param wasReached whether the host took the connection
   */
  again(wasReached: boolean): Promise<void>;
}

/** Answer the request with this refusal. */
export type Refused = Refusal & { kind: 'refuse' };

/** The backend of a site. `admit` is called once per request, synchronously, and again after each wait. */
export interface Backend {
  /** Name for the access log and the rate limits: the app's id, or `control`. */
  readonly site: string;
  /** Whether its event streams never end: then a drain does not wait for them. */
  readonly streamsForEver?: boolean;
  /** The one `x-cellar-` header that a client may send to it, in lower case. */
  readonly clientHeader?: string;
  admit(): Admission;
}
