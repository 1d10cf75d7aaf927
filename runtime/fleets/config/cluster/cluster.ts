// An app whose data is in the bucket: its process is the only member of the app's own cluster. workerd writes there before it
// acknowledges, and the disk is a cache.
import type { Fields } from '../capnp.ts';

/** How a process reaches its app's cluster. */
export interface ClusterSettings {
  /** `s3://bucket/prefix` of the app's data. */
  bucket: string;
  /** The secret that the members share. */
  key: string;
}

/** Time of an ending process to hand its objects over, in ms. It takes most of it, also when it is idle. */
const STOP_MS = 600;

/** Name of the service that has the large values of KV. */
export const LARGE_VALUES = 'kv-large-values';
export const LARGE_VALUES_SERVICE: Fields = { name: LARGE_VALUES, bucket: { path: 'kv' } };

/** The config's field `cluster`; none without one. The environment has the endpoint and the credentials of the bucket. */
export function clusterField(cluster: ClusterSettings | null): Fields {
  if (cluster === null) return {};
  return { cluster: { ...cluster, address: '127.0.0.1:0', stopTimeoutMs: STOP_MS } };
}
