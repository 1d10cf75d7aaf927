// Streams a copy of an app's whole storage, for `cellar dev --remote-data`. The copy is made as one for a preview is made.
import { rm } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { HostCall } from '../../../handlers/contract/host/host-routes.ts';
import type { Apps } from '../../apps/apps.ts';
import type { StorageLimits } from '../../apps/storage-limits.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { freeMegabytes } from '../../disk/disk.ts';
import type { DiskWatch } from '../../disk/disk-watch.ts';
import type { AppUsers } from '../../isolation/users.ts';
import { FairQueue, QueueFull } from '../../queues/fair-queue.ts';
import { noSuchApp, Refusal, requireRoom } from '../../refusal.ts';
import type { Snapshots } from '../../snapshots/snapshots.ts';
import { clientLeft } from '../../sockets/client-left.ts';
import { packCopy } from '../../storage/copy-stream.ts';
import type { StorageNames } from '../../storage/names.ts';
import type { HostRoutes } from '../host-call.ts';

export type CopyCall = Extract<HostCall, `${string}/copy`>;

/** Few at a time, because a copy takes disk space until its last byte is read. */
const LIMITS = { name: 'copies of apps', running: 2, runningPerOwner: 1, waitingPerOwner: 8 };
/** How long the download of one copy may take, in ms. */
const READ_MS = 30 * 60_000;
const BYTES_IN_MB = 2 ** 20;

export interface CopyRouteOptions {
  apps: Apps;
  disk: DiskWatch;
  paths: Layout;
  snapshots: Snapshots;
  storageLimits: StorageLimits;
  storageNames: (appId: string) => Partial<StorageNames>;
  users: (appId: string) => AppUsers;
}

export function copyRoutes(options: CopyRouteOptions): Pick<HostRoutes, CopyCall> {
  const { apps } = options;
  const queue = new FairQueue(LIMITS);
  return {
    'GET /apps/:id/copy': async ({ words, response }) => {
      const id = words[0]!;
      if (apps.get(id) === undefined) throw noSuchApp();
      const signal = clientLeft(response);
      await queue
        .run({ owner: apps.ownerOf(id), signal }, () => sendCopy(options, id, response, signal))
        .catch((error: unknown) => {
          throw error instanceof QueueFull ? new Refusal(429, 'rate_limited', error.message) : error;
        });
    },
  };
}

async function sendCopy(
  { apps, disk, paths, snapshots, storageLimits, storageNames, users }: CopyRouteOptions,
  id: string,
  response: ServerResponse,
  left: AbortSignal,
): Promise<void> {
  // The app may have been deleted while the copy was queued.
  const app = apps.get(id)?.wanted;
  if (app === undefined) throw noSuchApp();
  if (apps.clusterOf(id) !== null)
    throw new Refusal(
      409,
      'transition_conflict',
      'The app keeps its data in the bucket, which cannot be copied to another machine; run `cellar dev` without --remote-data',
    );
  requireRoom(disk);
  const megabytes = Math.ceil((storageLimits.sizeOf(id) ?? 0) / BYTES_IN_MB);
  // Twice the size: the copy is first written as packed files, which stay until it is extracted from them.
  if (freeMegabytes(paths.root) < 2 * megabytes)
    throw new Refusal(507, 'insufficient_storage', `the disk has no room for a copy of ${megabytes} MiB`);
  const work = join(paths.restoring, `${id}-read-${Date.now()}`);
  try {
    const names = storageNames(id);
    const of = { id, slug: app.slug, liveDeployId: null, user: users(id).cell, isInBucket: false };
    await snapshots.copy(of, work, apps.ownerOf(id), left);
    response.writeHead(200, { 'content-type': 'application/octet-stream' });
    const signal = AbortSignal.any([left, AbortSignal.timeout(READ_MS)]);
    // A failed read breaks the response off, so that the client notices it.
    await pipeline(Readable.from(packCopy(work, names)), response, { signal }).catch(() =>
      response.destroy(),
    );
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
