// Removes an app's old releases and deploys.
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { DEPLOYS_LIMIT } from '../../../handlers/contract/sizes.ts';
import { removeTree } from '../../disk/remove.ts';
import type { DeployOptions } from '../deploy/deploy.ts';

/** Maximum releases to keep for rollbacks, besides the live one. */
const KEPT_RELEASES = 5;

/**
 * Removes old releases, files of interrupted builds, and the rows and logs of old deploys. An app can be rolled back only to
 * the newest releases that were live. No build of the app may run.
 * @param next the deploy whose release the app's next deploy starts again; null: none
 */
export async function removeOldReleases(
  { store, paths, apps, onFacts }: Pick<DeployOptions, 'store' | 'paths' | 'apps' | 'onFacts'>,
  appId: string,
  next: string | null,
): Promise<void> {
  const decidedAt = Date.now();
  const live = apps.get(appId)?.liveDeployId ?? null;
  const served = store.deploys.successful(appId, KEPT_RELEASES + 1);
  const keep = new Set([live, next, ...served].filter((id) => id !== null));
  // The rows change before the files go, so that no row offers a rollback to a removed release.
  store.transaction(() => {
    for (const fact of store.deploys.released(appId)) {
      if (keep.has(fact.id)) continue;
      const deploy = { ...fact, can_roll_back: false };
      store.deploys.save(deploy);
      store.outbox.add({ type: 'deploy', deploy });
    }
    // `isMissed` needs the newest two pushes to know whether main is deployed.
    const pushed = store.deploys.newest(appId, 2).map(({ id }) => id);
    store.deploys.prune(appId, DEPLOYS_LIMIT, [...keep, ...pushed]);
  });
  onFacts();
  await store.synced();
  await apps.get(appId)?.code?.releases.keepOnly(keep, decidedAt);
  if (live === null) return;
  const releases = paths.releases(appId);
  // While a kept release is loaded from the bucket, the name of its directory ends with .new.
  const removed = (await readdir(releases)).filter((name) => !keep.has(name.replace(/\.new$/, '')));
  await Promise.all(removed.map((name) => removeTree(join(releases, name))));
}
