// The parts that make deploys: from pushes, uploads, imports and Git hosts, to apps and previews.

import type {
  BoundCertificate,
  SealedCertificate,
} from '../../handlers/contract/host/client-certificates.ts';
import { CodeCache } from '../bucket/code/code-cache.ts';
import { MissedDeploys } from '../builds/queue/missed-pushes.ts';
import { DeployQueue } from '../builds/queue/queue.ts';
import { DeployRequests } from '../builds/queue/requests.ts';
import { certificateOf } from '../builds/release/client-certificates.ts';
import { UnstoredReleases } from '../builds/release/unstored-releases.ts';
import { Imports } from '../builds/source/import.ts';
import { memoryForBuilds } from '../builds/usage/memory-share.ts';
import { hasDisk } from '../builds/usage/size.ts';
import { BranchChanges } from '../git/branch-changes.ts';
import { removeLocks } from '../git/repository.ts';
import { copyIntoPreview } from '../previews/copied-storage.ts';
import { Previews } from '../previews/previews.ts';
import { Splits } from '../previews/splits.ts';
import { requireRoom } from '../refusal.ts';
import { readMemory } from '../resources/memory.ts';
import { Sources } from '../sources/sources.ts';
import { Uploads } from '../uploads/uploads.ts';
import type { AppParts } from './apps.ts';
import type { Base } from './base.ts';
import type { ObservabilityParts } from './observability.ts';

export type DeployParts = ReturnType<typeof makeDeploys>;

/**
 * Makes these parts.
 * @param onFacts called after a transaction that added facts to the outbox
 * @param askCertificate gets a client certificate from the control plane
 */
export function makeDeploys(
  { config, store, paths, secrets, users, isolation, disk, reachable, urlOf, bucket }: Base,
  { say }: ObservabilityParts,
  { apps, snapshots, storage }: AppParts,
  onFacts: () => void,
  askCertificate: (asked: BoundCertificate) => Promise<SealedCertificate | null>,
) {
  const limits = {
    stepTimeoutMs: config.RUNNER_BUILD_TIMEOUT_S * 1000,
    worktreeMb: config.RUNNER_BUILD_MAX_MB,
    cacheMb: config.RUNNER_BUILD_CACHE_MB,
    floorMb: config.RUNNER_DISK_FLOOR_MB,
    memoryMb: config.RUNNER_BUILD_MEMORY_MB ?? memoryForBuilds(readMemory().total),
  };
  const copying = {
    store,
    paths,
    apps,
    snapshots,
    users,
    sizeOf: (appId: string) => storage.sizeOf(appId),
    limits: { maxMb: config.RUNNER_APP_MAX_MB, floorMb: config.RUNNER_DISK_FLOOR_MB },
  };
  const queue = new DeployQueue({
    store,
    paths,
    apps,
    secrets,
    limits,
    users,
    isolation,
    urlOf,
    say: (appId, deployId, level, text) => say('build', appId, level, text, deployId),
    snapshot: async (appId) => {
      requireRoom(disk);
      if (apps.originOf(appId) !== appId) throw new Error('previews are not in snapshots');
      return snapshots.takeForClasses(appId, apps.get(appId)?.wanted.slug ?? appId);
    },
    certificateOf: (appId) => certificateOf(apps, appId, askCertificate),
    cpuMaxS: config.RUNNER_CELL_CPU_MAX_S,
    hasContainers: config.RUNNER_CONTAINER_ENGINE !== '',
    copyIntoPreview: (appId, log, signal) => copyIntoPreview(copying, appId, log, signal),
    onFacts,
  });
  const requests = new DeployRequests(queue, { store, paths, apps });
  const uploads = new Uploads({ paths, store, apps, secrets, assetsMb: config.RUNNER_BUILD_MAX_MB });
  const previews = new Previews({ store, paths, apps, requests, queue });
  const splits = new Splits({ store, apps, requests, previews });
  const imports = new Imports({ paths, isolation, limits, reachable });
  // Repositories in the bucket remove the locks themselves: they also change refs between pushes.
  const mayHoldLocks = (appId: string) => changes.has(appId) || apps.get(appId)?.code != null;
  const changes = new BranchChanges(
    (appId) => void removeLocks(paths.repository(appId), () => mayHoldLocks(appId)),
  );
  const sources = new Sources({
    store,
    paths,
    disk,
    apps,
    secrets,
    requests,
    changes,
    imports,
    previews,
    reachable,
    urlOf,
  });
  const missed = new MissedDeploys({
    store,
    paths,
    apps,
    requests,
    changes,
    paused: () => disk.short,
    hasRoom: () => hasDisk(paths.root, config.RUNNER_BUILD_MAX_MB, config.RUNNER_DISK_FLOOR_MB),
    everyMs: config.RUNNER_FLEET_DEPLOY_POLL_S * 1000,
  });
  const unstored = new UnstoredReleases({ store, apps, paused: () => disk.short });
  const codeCache =
    bucket && new CodeCache({ store, paths, apps, bucket, maxMb: config.RUNNER_BUCKET_CACHE_MB });
  return {
    queue,
    requests,
    uploads,
    previews,
    splits,
    imports,
    sources,
    changes,
    missed,
    unstored,
    codeCache,
  };
}
