// Deploys what a person names: an earlier deploy's commit, or a ref of the app's own or connected repository.
import type { DeployFact } from '../../handlers/contract/host/host-calls.ts';
import type { HostCalls } from '../../handlers/contract/host/host-routes.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { DeployRequests } from '../builds/queue/requests.ts';
import { DEPLOY_REF } from '../git/repository.ts';
import type { Sources } from './sources.ts';

export interface CreateDeployOptions {
  store: HostStore;
  requests: DeployRequests;
  sources: Sources;
}

/**
 * Queues the deploy. A ref of a connected repository is fetched first, as `source.sync` does.
 * @throws {Refusal} for an unknown deploy, ref or commit, and when the fetch fails
 */
export async function createDeploy(
  { store, requests, sources }: CreateDeployOptions,
  appId: string,
  { deploy_id, ref, by }: HostCalls['POST /apps/:id/deploys']['body'],
  signal: AbortSignal,
): Promise<DeployFact> {
  if (ref === null) return (await requests.again(appId, deploy_id, by)).fact;
  if (store.sources.find(appId) === undefined) return (await requests.named(appId, ref, by)).fact;
  const synced = await sources.sync(appId, ref, signal);
  const fact = synced.deploy_id === null ? undefined : store.deploys.find(appId, synced.deploy_id);
  if (fact !== undefined) return fact;
  // Main was at this commit already, so the fetch has queued no deploy.
  return (await requests.commit({ appId, sha: synced.sha, ref: DEPLOY_REF, trigger: 'redeploy', by })).fact;
}
