// Messages between the host and the process of the proxy.
import type { S3Place } from '../place.ts';

/** The first message, with the listening socket. The secrets are in no file, command line or environment. */
export interface Setup {
  place: S3Place;
  clusterKey: string;
  /** The operator's own certificate authorities, as PEM: the proxy's user may be unable to read their file. */
  authorities: string[];
}

/** Requests of an app to the bucket. Lists count as writes, as in the price lists of stores. */
export interface Counts {
  writes: number;
  reads: number;
  deletes: number;
  /** Bytes of the bodies of the app's requests. */
  bytesIn: number;
  /** Bytes of the bodies of the answers. */
  bytesOut: number;
}

export type Report =
  | { type: 'listening' }
  /** Requests of apps since the proxy's previous report. */
  | { type: 'counts'; apps: [appId: string, counts: Counts][] }
  /** `reason`: why the store does not answer; null when it answers again. */
  | { type: 'away'; reason: string | null };
