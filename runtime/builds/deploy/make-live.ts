// Makes the release of a deploy the live one. The fleet tries it and swaps the process (`runtime/fleets/life/swap.ts`). When
// the new process runs, and before it gets requests, one transaction here records this release as live.
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';
import type { DeployRecord } from './deploy-record.ts';

interface NextRelease {
  /** The storage names to keep once it is live. */
  storage: object;
  /** The queues that the release consumes. */
  consumes: string[];
  /** Warnings for the author. */
  warnings: string[];
  /** Cancels the change, as long as the running process was not touched. */
  signal: AbortSignal;
}

/**
 * Makes the release live and sets the deploy's status. The deploy that was live becomes `replaced`.
 * @throws {Error} with workerd's own reason when the release does not start; the previous release stays live
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
        store.previews.endSplit(app_id);
        store.outbox.add({ type: 'app', app });
      }),
  });
}

/** Must be called inside a transaction. */
function markReplaced(store: HostStore, appId: string, deployId: string): void {
  const fact = store.deploys.find(appId, deployId);
  if (!fact) return;
  const deploy: DeployFact = { ...fact, status: 'replaced' };
  store.deploys.save(deploy);
  store.outbox.add({ type: 'deploy', deploy });
}
