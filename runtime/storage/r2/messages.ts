// What the host and the bucket service say to each other.
import type { RoomOptions } from './room.ts';

/** Name of an app's socket in the directory of its buckets. */
export const SOCKET = 'r2.sock';

/** Has the service serve an app, whose buckets lie in the directory `open`, at the socket that comes along; with `null`, close it. */
export interface BucketRequest {
  id: number;
  app: string;
  open: string | null;
}

export interface BucketReply {
  id: number;
  error: string | null;
}

/** What the service is started with. */
export interface ServiceOptions extends RoomOptions {
  /** A connection on which nothing moves is closed after so long, in ms. Default 60,000. */
  silenceMs?: number;
}
