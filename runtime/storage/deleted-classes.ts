// The data of Durable Object classes that a project has deleted.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Release } from '../../bundler/release.ts';
import type { Layout } from '../disk/data-directory.ts';
import { throwAway } from '../disk/trash.ts';
import type { StorageNames } from './names.ts';

/** The data of a deleted class. */
export interface DeletedClass {
  id: string;
  className: string;
  path: string;
}

/**
 * The data that is still there of classes that are deleted, and that the release which serves does not have. What a host
 * that was killed did not move is found again after the next deploy.
 * @param release the one that serves
 */
export function findDeletedClasses(
  { data }: Pick<Layout, 'data'>,
  appId: string,
  { deletedClasses = {} }: Pick<StorageNames, 'deletedClasses'>,
  release: Release,
): DeletedClass[] {
  const serving = new Set(release.classes.map(({ storageId }) => storageId));
  return Object.entries(deletedClasses)
    .filter(([id]) => !serving.has(id))
    .map(([id, className]) => ({ id, className, path: join(data(appId), 'do', id) }))
    .filter(({ path }) => existsSync(path));
}

/** Moves the data of deleted classes of an app to the trash. */
export function throwClassesAway(
  { trash }: Pick<Layout, 'trash'>,
  appId: string,
  classes: DeletedClass[],
): void {
  throwAway(trash, appId, Object.fromEntries(classes.map(({ id, path }) => [id, path])));
}
