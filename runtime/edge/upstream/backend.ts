// What the gateway needs of whatever answers a site: an app's fleet or the control plane.
import type { Refusal } from '../refusals.ts';
import type { Upstream } from './upstream.ts';

/** What to do with a request for a site, decided when its head has been read. */
export type Admission =
  /** Send it there now. */
  | { kind: 'forward'; upstream: Upstream }
  /** Hold it (with back-pressure on its body) and ask again when `ready` settles. `ready` never rejects. */
  | { kind: 'hold'; ready: Promise<void> }
  | Refused;

/** Answer it here. */
export type Refused = Refusal & { kind: 'refuse' };

/** A site's other side. `admit` is called once per request, synchronously, and again after each hold. */
export interface Backend {
  /** A name for the access log and the limits: the app's id, or `control`. */
  readonly site: string;
  /** Whether its streams of events go on for ever: a gateway that closes does not wait for them. */
  readonly streamsForEver?: boolean;
  /** The one header of Cellar's own that a client may send to it, in lower case. */
  readonly clientHeader?: string;
  admit(): Admission;
}
