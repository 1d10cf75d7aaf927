// What connects this host to the others of its Cellar.
import type { KnownApps } from '../apps/known-apps.ts';
import { Homes } from '../hosts/homes.ts';
import { Hosts } from '../hosts/hosts.ts';
import type { Base } from './base.ts';

/** Returns null for the only host. @param apps those of this host */
export function makeHosts({ config, store, clusterKey }: Base, apps: () => KnownApps): Hosts | null {
  if (config.RUNNER_ADDRESS === null) return null;
  const baseDomain = config.RUNNER_BASE_DOMAIN;
  const homes = new Homes(store.snapshots.machine(), baseDomain);
  const here = (appId: string, previewHost: string | null) => apps().fleetAt(appId, previewHost);
  return new Hosts({ homes, baseDomain, clusterKey, here });
}
