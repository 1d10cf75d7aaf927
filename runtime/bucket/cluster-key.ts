// The secret that all keys of apps in the bucket derive from. It also encrypts the other secrets of this Cellar there.
import type { Config } from '../config.ts';
import { keptSecret, type Layout } from '../disk/data-directory.ts';

/** Returns `RUNNER_CLUSTER_KEY`, else the key in the data directory, made when it is missing. 64 hexadecimal characters. */
export function clusterKeyOf(config: Pick<Config, 'RUNNER_CLUSTER_KEY'>, paths: Layout): string {
  return (config.RUNNER_CLUSTER_KEY || keptSecret(paths.clusterKey, '', 'hex')).toLowerCase();
}
