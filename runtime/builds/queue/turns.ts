// Chooses the next deploy of the queue.
import type { Deploy } from '../deploy/deploy.ts';

/** Maximum concurrent builds. Each may keep a core busy. */
const BUILDS = 2;
/** Maximum concurrent builds when the next build's account has none running: long builds of other accounts delay it less. */
const BUILDS_WITH_NEWCOMER = 4;
/** Maximum concurrent deploys that build nothing, such as rollbacks and uploads. */
const READY_RELEASES = 4;
/** Maximum concurrent deploys of one account that build nothing. */
const READY_RELEASES_OF_ACCOUNT = 2;

/**
 * Returns the next deploy to run; `null` while none may begin.
 * @param running the deploys that have begun and not ended
 * @param waiting the deploys of apps without a running deploy, the oldest first
 * @param ownerOf the account that a deploy is for
 */
export function nextDeploy(
  running: Deploy[],
  waiting: Deploy[],
  ownerOf: (deploy: Deploy) => string,
): Deploy | null {
  const [builds, ready] = [running.filter(({ builds }) => builds), running.filter(({ builds }) => !builds)];
  // Prefers accounts with the fewest running deploys, then the deploy that has waited longest.
  const fairest = (among: Deploy[], candidates: Deploy[]) => {
    const owners = among.map(ownerOf);
    return candidates
      .map((deploy) => ({ deploy, share: owners.filter((owner) => owner === ownerOf(deploy)).length }))
      .sort((a, b) => a.share - b.share)[0];
  };
  const nextReady = fairest(
    ready,
    waiting.filter(({ builds }) => !builds),
  );
  if (nextReady && ready.length < READY_RELEASES && nextReady.share < READY_RELEASES_OF_ACCOUNT)
    return nextReady.deploy;
  const nextBuild = fairest(
    builds,
    waiting.filter(({ builds }) => builds),
  );
  if (nextBuild === undefined) return null;
  return builds.length < (nextBuild.share === 0 ? BUILDS_WITH_NEWCOMER : BUILDS) ? nextBuild.deploy : null;
}
