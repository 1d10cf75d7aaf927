// Which of the waiting deploys may begin.
import type { Deploy } from './deploy.ts';

/** The most builds that run side by side. Each may keep a core busy. */
const BUILDS = 2;
/** The most builds while the next one's account has no build running, so that the long builds of some hold up nobody else's. */
const BUILDS_OF_ALL = 4;
/** The most rollbacks and uploads that run side by side, besides the builds: they build nothing. */
const READY_RELEASES = 4;

/**
 * The deploy whose turn it is; `null` while none may begin.
 * @param running the deploys that have begun and not ended
 * @param waiting those that could begin, the oldest first
 * @param ownerOf the account that a deploy is for
 */
export function nextDeploy(
  running: Deploy[],
  waiting: Deploy[],
  ownerOf: (deploy: Deploy) => string,
): Deploy | null {
  const ready = waiting.find((deploy) => !deploy.builds);
  const builds = running.filter((deploy) => deploy.builds);
  if (ready && running.length - builds.length < READY_RELEASES) return ready;
  const owners = builds.map(ownerOf);
  const share = (deploy: Deploy) => owners.filter((owner) => owner === ownerOf(deploy)).length;
  // Of the accounts that have the fewest builds running, the deploy that waits longest.
  const [next] = waiting
    .filter((deploy) => deploy.builds)
    .map((deploy) => ({ deploy, share: share(deploy) }))
    .sort((a, b) => a.share - b.share);
  if (next === undefined) return null;
  return builds.length < (next.share === 0 ? BUILDS_OF_ALL : BUILDS) ? next.deploy : null;
}
