// Clusters of apps in a store of the test, without the proxy.
import { AppCluster, type ClusterHosts } from '../../../runtime/bucket/app-cluster.ts';
import type { MemoryStore } from './memory-store.ts';

/** Returns the cluster of an app. @param hosts address and port of this host in a Cellar with several hosts; default: one host */
export function clusterIn(store: MemoryStore, appId = 'app1', hosts?: ClusterHosts): AppCluster {
  return new AppCluster({
    place: store.place('of/cellar/'),
    clusterKey: '0'.repeat(64),
    appId,
    endpoint: () => store.endpoint,
    isAway: () => false,
    ready: async () => {},
    untilUsable: async () => {},
    importing: '/nowhere',
    hosts,
    warn: () => {},
  });
}
