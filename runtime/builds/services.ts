// What a deploy has to say of the other apps that a release is bound to, and of the queues that are theirs.
import { BuildFailure } from '../../bundler/failure.ts';
import type { Apps } from '../apps/apps.ts';
import { queuesElsewhere } from '../fleets/config/services.ts';
import type { DeployLog } from './deploy-log.ts';
import { readRelease } from './release.ts';

/**
 * @param isPushed whether the release says by itself which queues it consumes; otherwise Wrangler says so after the deploy
 * @returns the queues that it consumes
 * @throws {BuildFailure} naming each binding to an app that is not there, and each queue that no app consumes, or several
 */
export async function checkServices(
  release: string,
  { appId, apps, isPushed, log }: { appId: string; apps: Apps; isPushed: boolean; log: DeployLog },
): Promise<string[]> {
  const described = await readRelease(release);
  if (described === null) return [];
  const missing = (described.services ?? []).filter(
    ({ service }) => service !== null && !apps.hasSibling(appId, service),
  );
  if (missing.length > 0) {
    const list = missing.map(({ binding, service }) => `${binding} is bound to ${service}`).join(', ');
    throw new BuildFailure(
      `services: ${list}, and the owner of this app has no app of that name: create it, or correct "service"`,
    );
  }
  for (const queue of queuesElsewhere(described)) {
    const consumers = apps.consumersOf(appId, queue);
    const slugs = consumers.map((id) => apps.get(id)!.wanted.slug).join(', ');
    if (consumers.length === 1) log.line(`queues: ${queue} is consumed by the app ${slugs}`);
    else if (consumers.length > 1)
      throw new BuildFailure(`queues: ${queue} is consumed by several apps of the same owner: ${slugs}`);
    else if (isPushed)
      throw new BuildFailure(
        `queues: ${queue} is unknown: neither this project nor another app of the same owner consumes it; deploy its consumer first`,
      );
    else log.line(`queues: nobody consumes ${queue} yet; until then nothing can be sent to it`);
  }
  return described.triggers?.consumers.map(({ queue }) => queue) ?? [];
}
