// The secret that all keys of apps in the bucket derive from, and with a bucket also the other secrets of this Cellar.
import { createHmac } from 'node:crypto';
import { basename } from 'node:path';
import type { Config } from '../config.ts';
import { keptSecret, type Layout } from '../disk/data-directory.ts';

/** Returns `RUNNER_CLUSTER_KEY`, or the key in the data directory, which is made when it is missing. 64 hexadecimal characters. */
export function clusterKeyOf(config: Pick<Config, 'RUNNER_CLUSTER_KEY'>, paths: Layout): string {
  return (config.RUNNER_CLUSTER_KEY || keptSecret(paths.clusterKey, { encoding: 'hex' })).toLowerCase();
}

/** Makes the secrets that the data directory lacks, so that another machine with the same cluster key makes the same. */
export function deriveSecrets(paths: Layout, clusterKey: string): void {
  const { token, apiKey, alertKey, secretsKey, signInKey, hostSecret } = paths;
  for (const path of [token, apiKey, alertKey, secretsKey, signInKey, hostSecret]) {
    const bytes = createHmac('sha256', clusterKey)
      .update(`secret:${basename(path)}`)
      .digest();
    keptSecret(path, { bytes, prefix: path === apiKey ? 'cellar_' : '' });
  }
}
