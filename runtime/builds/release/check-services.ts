// Checks the other apps and queues that a release is bound to, and logs the result.

import { CELLAR } from '../../../bundler/bindings/services.ts';
import type { NamedOutside } from '../../../bundler/configuration/preflight.ts';
import { BuildFailure } from '../../../bundler/failure.ts';
import { someOf } from '../../../handlers/contract/text.ts';
import type { KnownApps } from '../../apps/known/known-apps.ts';
import { calledQueues, queuesElsewhere } from '../../fleets/config/services.ts';
import type { DeployLog } from '../deploy/deploy-log.ts';
import { requireScript } from './object-classes.ts';
import { readRelease } from './release.ts';

interface Owned {
  appId: string;
  apps: Pick<KnownApps, 'slugOf' | 'siblingOf' | 'originOf' | 'consumersOf' | 'others'>;
  /**
   * Whether the release is built from a commit, which names the queues it consumes. For an upload, Wrangler adds them later.
   */
  isPushed: boolean;
}

/**
 * Checks the other apps that a configuration or a release names. The list of apps on other hosts may be old. So after a
 * failure this fetches a new list, and checks once more.
 * @returns the slug of the app that consumes each queue of other apps; `undefined`: no app yet, only if not `isPushed`
 * @throws {BuildFailure} at the first fault: an app is missing, or the app names itself as tail Worker or `script_name`. Or
 * several apps consume a queue, or no app does and `isPushed` is set
 */
export async function requireServices(
  named: NamedOutside,
  owned: Owned,
): Promise<Map<string, string | undefined>> {
  try {
    return findServices(named, owned);
  } catch (error) {
    if (owned.apps.others === null) throw error;
    await owned.apps.others.askNow();
    return findServices(named, owned);
  }
}

function findServices(
  named: NamedOutside,
  { appId, apps, isPushed }: Owned,
): Map<string, string | undefined> {
  const missing = (named.services ?? []).filter(
    ({ service }) => service !== null && service !== CELLAR && apps.siblingOf(appId, service) === null,
  );
  if (missing.length > 0) {
    const list = missing.map(({ binding, service }) => `${binding} is bound to ${service}`).join(', ');
    throw new BuildFailure(
      `services: ${list}, and the owner of this app has no app of that name: create it, or correct "service"`,
    );
  }
  for (const { binding, outbound } of named.dispatchNamespaces ?? [])
    if (outbound && apps.siblingOf(appId, outbound.service) === null)
      throw new BuildFailure(
        `dispatch_namespaces: ${binding} names the outbound Worker ${outbound.service}, and the owner of this app has no app of that name: create it, or correct "outbound"`,
      );
  for (const slug of named.tailConsumers ?? []) requireTail(slug, appId, apps);
  for (const elsewhere of named.objectsElsewhere ?? []) requireScript(elsewhere, appId, apps);
  const consumers = new Map<string, string | undefined>();
  const sent = queuesElsewhere(named);
  for (const queue of calledQueues(named)) {
    const slugs = apps.consumersOf(appId, queue).map((id) => apps.slugOf(id) ?? id);
    // Dead letters without exactly one consumer stay in this app.
    if (slugs.length !== 1 && !sent.includes(queue)) continue;
    if (slugs.length > 1)
      throw new BuildFailure(
        `queues: ${queue} is consumed by several apps of the same owner: ${someOf(slugs)}; let only one of them consume it`,
      );
    if (slugs.length === 0 && isPushed)
      throw new BuildFailure(
        `queues: ${queue} is unknown: neither this project nor another app of the same owner consumes it; deploy its consumer first`,
      );
    consumers.set(queue, slugs[0]);
  }
  return consumers;
}

function requireTail(slug: string, appId: string, apps: Owned['apps']): void {
  const found = apps.siblingOf(appId, slug);
  if (found === null)
    throw new BuildFailure(
      `tail_consumers: ${slug}: the owner of this app has no app of that name: create it, or correct "service"`,
    );
  if (found === apps.originOf(appId))
    throw new BuildFailure(`tail_consumers: ${slug} is this app: name another app with a tail() handler`);
}

/**
 * As `requireServices`, for a release. Logs which app consumes each queue.
 * @returns the queues that it consumes, and a warning for each that another app consumes too
 * @throws {BuildFailure} as `requireServices`
 */
export async function checkServices(
  release: string,
  owned: Owned,
  log: Pick<DeployLog, 'line'>,
): Promise<{ consumes: string[]; warnings: string[] }> {
  const described = await readRelease(release);
  if (described === null) return { consumes: [], warnings: [] };
  for (const [queue, consumer] of await requireServices(described, owned))
    log.line(
      consumer === undefined
        ? `queues: no app consumes ${queue} yet; sending to it fails until one does`
        : `queues: ${queue} is consumed by the app ${consumer}`,
    );
  const consumes = described.triggers?.consumers.map(({ queue }) => queue) ?? [];
  return { consumes, warnings: consumes.flatMap((queue) => sharedQueue(queue, owned)) };
}

/** Returns a warning about a consumed queue that other apps consume too, if any. Nobody sends to a preview's queues. */
function sharedQueue(queue: string, { appId, apps }: Owned): string[] {
  const slugs = apps.consumersOf(appId, queue).map((id) => apps.slugOf(id) ?? id);
  if (slugs.length === 0 || apps.originOf(appId) !== appId) return [];
  return [
    `queues: ${queue} is also consumed by ${someOf(slugs)}: all sends of other apps to it fail until only one app consumes it`,
  ];
}
