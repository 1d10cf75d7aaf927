// Moves the branch main of an app by other means than a push, and deploys it.
import type { DeployTrigger } from '../../../handlers/contract/host/host-calls.ts';
import type { Apps } from '../../apps/apps.ts';
import type { Layout } from '../../disk/data-directory.ts';
import type { BranchChanges } from '../../git/branch-changes.ts';
import { type MadeCommit, moveMain, updateOfMain } from '../../git/commit.ts';
import { DEPLOY_REF } from '../../git/repository.ts';
import type { Deploy } from '../deploy/deploy.ts';
import type { DeployRequests } from '../queue/requests.ts';

export interface ChangeMainOptions {
  apps: Apps;
  paths: Layout;
  requests: DeployRequests;
  changes: BranchChanges;
}

/**
 * Moves main to the commit that `make` makes, and queues its deploy.
 * @param make gets the path of the repository. If it resolves with null, nothing changes
 * @throws {Refusal} `commit_conflict` when main was moved meanwhile, and what `make` throws
 */
export function changeMain<Made extends MadeCommit | null>(
  { apps, paths, requests, changes }: ChangeMainOptions,
  appId: string,
  trigger: DeployTrigger,
  make: (repository: string) => Promise<Made>,
): Promise<Made extends null ? Deploy | null : Deploy> {
  type Changed = Made extends null ? Deploy | null : Deploy;
  const app = apps.get(appId)!;
  const stored = app.code?.repository;
  const move = async (): Promise<Changed> => {
    const repository = paths.repository(appId);
    const made = await make(repository);
    if (made === null) return null as Changed;
    await stored?.store([updateOfMain(made)]);
    await moveMain(repository, made);
    return (await requests.commit({ appId, sha: made.sha, ref: DEPLOY_REF, trigger })) as Changed;
  };
  const changed = app.changes.during(() => (stored ? stored.during(move) : move()));
  return changes.during(appId, changed);
}
