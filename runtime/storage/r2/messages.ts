// What the host tells the bucket service.
import type { RoomOptions } from './bucket/quota.ts';

/** Name of an app's socket in the directory of its buckets. */
export const SOCKET = 'r2.sock';

/** What the service is started with. */
export interface ServiceOptions extends RoomOptions {
  /** A connection on which nothing moves is closed after so long, in ms. Default 60,000. */
  silenceMs?: number;
}
