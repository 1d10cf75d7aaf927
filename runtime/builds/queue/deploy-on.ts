// Which pushes of an app are deployed.
import type { WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';

/**
 * Returns which pushes to an app's repository are deployed. With a connected repository, returns `main`, because each fetch
 * moves main.
 */
export function deployOn(
  { store, apps }: { store: Pick<HostStore, 'sources'>; apps: Pick<Apps, 'get'> },
  appId: string,
): NonNullable<WantedApp['deploy_on']> {
  const own = apps.get(appId)?.wanted.deploy_on ?? 'main';
  return own === 'main' || store.sources.find(appId) !== undefined ? 'main' : own;
}
