// Finds the data of deleted Durable Object classes, and moves it from the disk to the trash.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Release } from '../../bundler/release.ts';
import type { AppCluster } from '../bucket/app-cluster.ts';
import type { Layout } from '../disk/data-directory.ts';
import { moveToTrash } from '../disk/trash.ts';
import type { StorageNames } from './names.ts';

export interface DeletedClass {
  id: string;
  className: string;
  path: string;
}

/**
 * Returns the remaining data of deleted classes that the live release lacks. If the host is killed before the data is moved
 * to the trash, the next deploy finds it again.
 * @param of.release the live release
 * @param of.cluster null for an app that keeps its data on this machine's disk
 */
export async function findDeletedClasses(
  { data }: Pick<Layout, 'data'>,
  appId: string,
  of: { storage: Pick<StorageNames, 'deletedClasses'>; release: Release; cluster: AppCluster | null },
): Promise<DeletedClass[]> {
  const serving = new Set(of.release.classes.map(({ storageId }) => storageId));
  const classes = Object.entries(of.storage.deletedClasses ?? {})
    .filter(([id]) => !serving.has(id))
    .map(([id, className]) => ({ id, className, path: join(data(appId), 'do', id) }));
  if (of.cluster === null || classes.length === 0) return classes.filter(({ path }) => existsSync(path));
  const stored = await of.cluster.objects(Object.fromEntries(classes.map(({ id }) => [id, []])));
  return classes.filter(({ id }) => stored[id]!.count > 0);
}

/** Moves the data of an app's deleted classes from the disk to the trash. */
export function trashDeletedClasses(
  { trash }: Pick<Layout, 'trash'>,
  appId: string,
  classes: DeletedClass[],
): void {
  moveToTrash(trash, appId, Object.fromEntries(classes.map(({ id, path }) => [id, path])));
}
