// Which pushes of an app are deployed.
import type { WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';

/** Returns the setting of an app's own repository. A connected one is fetched by a setting of its own, and main is deployed. */
export function deployOn(
  { store, apps }: { store: Pick<HostStore, 'sources'>; apps: Pick<Apps, 'get'> },
  appId: string,
): NonNullable<WantedApp['deploy_on']> {
  const own = apps.get(appId)?.wanted.deploy_on ?? 'main';
  return own === 'main' || store.sources.find(appId) !== undefined ? 'main' : own;
}
