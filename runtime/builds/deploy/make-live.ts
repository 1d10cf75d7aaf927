// Makes the release of a deploy the live one. The fleet tries it and swaps the process (`runtime/fleets/life/swap.ts`); when the
// new process runs, and before it gets requests, one transaction here writes that this release is live.
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';
import type { DeployRecord } from './deploy-record.ts';

/** What is made live. */
interface NextRelease {
  /** The names of the app's storage to keep once it is live. */
  storage: object;
  /** The queues that it consumes. */
  consumes: string[];
  /** What the author has to know about it. */
  warnings: string[];
  /** Gives the change up before anything is changed. */
  signal: AbortSignal;
}

/**
 * Makes the release live, and the deploy's status with it; the deploy that served until now becomes `replaced`.
 * @throws {Error} with workerd's own reason when the release does not start; the one before serves on
 */
export async function makeLive(
  { store, apps }: { store: HostStore; apps: Apps },
  deploy: DeployRecord,
  { storage, consumes, warnings, signal }: NextRelease,
): Promise<void> {
  const { id, app_id } = deploy.fact;
  await apps.makeLive(app_id, id, {
    log: (line) => deploy.log.line(line),
    consumes,
    signal,
    commit: (at, app) =>
      deploy.changeWith({ status: 'live', can_roll_back: true, warnings }, () => {
        const before = apps.get(app_id)?.liveDeployId;
        if (before) markReplaced(store, app_id, before);
        store.apps.setLive(app_id, id, at, storage, consumes);
        store.outbox.add({ type: 'app', app });
      }),
  });
}

/** In the transaction around this call. */
function markReplaced(store: HostStore, appId: string, deployId: string): void {
  const fact = store.deploys.find(appId, deployId);
  if (!fact) return;
  const deploy: DeployFact = { ...fact, status: 'replaced' };
  store.deploys.save(deploy);
  store.outbox.add({ type: 'deploy', deploy });
}
