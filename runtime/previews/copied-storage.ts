// Copies an app's storage into a new preview, if the app is configured so.
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { BuildFailure } from '../../bundler/failure.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { KnownApps } from '../apps/known/known-apps.ts';
import { isSecondVersion } from '../apps/preview-app.ts';
import type { Layout } from '../disk/data-directory.ts';
import { freeMegabytes } from '../disk/disk.ts';
import { removeTree } from '../disk/remove.ts';
import type { AppUsers } from '../isolation/users.ts';
import { abandonMoves } from '../snapshots/restore/moves.ts';
import type { Snapshots } from '../snapshots/snapshots.ts';

const BYTES_IN_MB = 2 ** 20;
const INSTEAD = 'with `previews.set` and the storage "empty" a new preview begins with nothing';

export interface CopiedStorageOptions {
  store: HostStore;
  paths: Layout;
  apps: KnownApps;
  snapshots: Snapshots;
  users: (appId: string) => AppUsers;
  /** Bytes of an app's storage; `null` when unknown. */
  sizeOf: (appId: string) => number | null;
  /** Limit of the storage of an app and its previews, 0 for none; and disk space that must stay free. In MiB. */
  limits: { maxMb: number; floorMb: number };
}

/**
 * Copies the storage into a preview without storage, if its app is configured so. After an interruption, the next deploy
 * repeats it.
 * @throws {BuildFailure} when the quota or the disk is full
 */
export async function copyIntoPreview(
  options: CopiedStorageOptions,
  id: string,
  log: (line: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { apps, store, snapshots, paths, users } = options;
  const parent = apps.get(apps.originOf(id))?.wanted;
  const isNew = apps.get(id)?.liveDeployId === null && Object.keys(store.apps.storageNames(id)).length === 0;
  const preview = apps.get(id)?.preview;
  const isSecond = preview != null && isSecondVersion(preview);
  if (parent?.previews?.storage !== 'copy' || !isNew || isSecond) return;
  const names = store.apps.storageNames(parent.id);
  await requireRoom(options, parent.id);
  log("copying the app's storage");
  const work = join(paths.restoring, `${id}-${Date.now()}`);
  const isInBucket = apps.clusterOf(parent.id) !== null;
  const of = {
    id: parent.id,
    slug: parent.slug,
    liveDeployId: null,
    user: users(parent.id).cell,
    isInBucket,
  };
  try {
    await snapshots.copy(of, work, apps.ownerOf(parent.id), signal);
    signal.throwIfAborted();
    await apps.clusterOf(id)?.finishImport();
    for (const [from, to] of [
      [join(work, 'data'), paths.data(id)],
      [join(work, 'buckets'), paths.buckets(id)],
      [join(work, 'importing'), paths.importing(id)],
    ] as const) {
      if (!existsSync(from)) continue;
      // Left by an interrupted copy.
      await removeTree(to);
      mkdirSync(dirname(to), { recursive: true, mode: 0o711 });
      renameSync(from, to);
    }
    store.apps.setStorageNames(id, names);
  } finally {
    abandonMoves(work);
  }
}

/** Checks the quota and the disk. A copy is packed before it is written, so it needs its size twice on disk. */
async function requireRoom(
  { apps, paths, sizeOf, limits }: CopiedStorageOptions,
  parentId: string,
): Promise<void> {
  const family = [parentId, ...apps.previews(parentId).map(({ id }) => id)];
  const megabytes = (id: string) => (sizeOf(id) ?? 0) / BYTES_IN_MB;
  const cluster = apps.clusterOf(parentId);
  const size = cluster ? (await cluster.bytes()) / BYTES_IN_MB : megabytes(parentId);
  const shown = `${Math.ceil(size)} MiB`;
  const total = size + family.reduce((sum, id) => sum + megabytes(id), 0);
  if (limits.maxMb > 0 && total > limits.maxMb)
    throw new BuildFailure(
      `with a copy of the ${shown} of storage, the app and its previews would exceed RUNNER_APP_MAX_MB (${limits.maxMb}); ${INSTEAD}`,
    );
  if (freeMegabytes(paths.root) - limits.floorMb < 2 * size)
    throw new BuildFailure(`the disk has too little space for a copy of the ${shown} of storage; ${INSTEAD}`);
}
