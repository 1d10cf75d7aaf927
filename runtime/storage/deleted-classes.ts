// Removes the data of Durable Object classes that a project has deleted.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Release } from '../../bundler/release.ts';
import type { Layout } from '../disk/data-directory.ts';
import { moveToTrash } from '../disk/trash.ts';
import type { StorageNames } from './names.ts';

/** The data of a deleted class. */
export interface DeletedClass {
  id: string;
  className: string;
  path: string;
}

/**
 * Returns the remaining data of deleted classes that the live release lacks. If a killed host did not move it, the next
 * deploy finds it again.
 * @param release the live one
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

/** Moves the data of an app's deleted classes to the trash. */
export function trashDeletedClasses(
  { trash }: Pick<Layout, 'trash'>,
  appId: string,
  classes: DeletedClass[],
): void {
  moveToTrash(trash, appId, Object.fromEntries(classes.map(({ id, path }) => [id, path])));
}
