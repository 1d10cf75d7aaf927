// Messages from the host to the bucket service.
import type { S3Place } from '../../bucket/place.ts';
import type { QuotaOptions } from '../../disk/quota.ts';

/** Name of an app's socket in the directory of its buckets. */
export const SOCKET = 'r2.sock';

/** Name of the index of objects on this machine, in the directory of an app's buckets. */
export const INDEX = 'index.sqlite';

export interface ServiceOptions extends QuotaOptions {
  /** Idle timeout of a connection, in ms. Default 60,000. */
  silenceMs?: number;
}

/** Where an app's objects are in the bucket; null for objects on this machine. The host sends it on opening an app. */
export type AboutApp = S3Place | null;
