// Makes the part that connects this host to the other hosts of its Cellar.
import type { KnownApps } from '../apps/known/known-apps.ts';
import { Hosts } from '../hosts/hosts.ts';
import type { Base } from './base.ts';

/** Makes this part; returns null for the only host. @param apps returns the apps of this host */
export function makeHosts({ config, homes, clusterKey }: Base, apps: () => KnownApps): Hosts | null {
  if (homes === null) return null;
  const here = (appId: string, previewHost: string | null, headers?: readonly string[]) =>
    apps().fleetAt(appId, previewHost, headers);
  return new Hosts({ homes, baseDomain: config.RUNNER_BASE_DOMAIN, clusterKey, here });
}
