// The cluster of an app whose data is in the bucket. Its members are the app's processes, usually only one. workerd writes
// to the bucket before it acknowledges a write, and the disk is a cache.
import type { Fields } from '../capnp.ts';

/** How a process reaches its app's cluster. */
export interface ClusterSettings {
  /** `s3://bucket/prefix` of the app's data. */
  bucket: string;
  /** The secret that the members of the cluster share. */
  key: string;
  /** The address where the process listens for other members. Default: on loopback, because there is only one member. */
  address?: string;
  /** The address that the process's lease names instead of `address`. */
  advertise?: string;
}

/** Maximum time for a stopping process to release its objects, in ms. Even an idle process may take almost as long. */
const STOP_MS = 600;

/** Name of the service that stores the large values of KV in the bucket. */
export const LARGE_VALUES = 'kv-large-values';
export const LARGE_VALUES_SERVICE: Fields = { name: LARGE_VALUES, bucket: { path: 'kv' } };

/** Returns the config's field `cluster`, or nothing. workerd reads the endpoint and the credentials from its environment. */
export function clusterField(cluster: ClusterSettings | null): Fields {
  if (cluster === null) return {};
  return { cluster: { address: '127.0.0.1:0', ...cluster, stopTimeoutMs: STOP_MS } };
}
