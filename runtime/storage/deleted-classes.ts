// The data of Durable Object classes that a project has deleted.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Release } from '../../bundler/release.ts';
import type { Layout } from '../machine/data-directory.ts';
import { throwAway } from '../machine/trash.ts';
import type { StorageNames } from './names.ts';

/**
 * Moves to the trash what classes kept that are deleted, and that the release which serves does not have. It has been
 * moved already after an earlier deploy, or is moved now, whenever a host was killed.
 * @param release the one that serves
 * @returns the names of those whose data was moved
 */
export function throwClassesAway(
  { data, trash }: Pick<Layout, 'data' | 'trash'>,
  appId: string,
  { deletedClasses = {} }: Pick<StorageNames, 'deletedClasses'>,
  release: Release,
): string[] {
  const serving = new Set(release.classes.map(({ storageId }) => storageId));
  const left = Object.entries(deletedClasses)
    .filter(([id]) => !serving.has(id))
    .map(([id, className]) => ({ id, className, path: join(data(appId), 'do', id) }))
    .filter(({ path }) => existsSync(path));
  if (left.length === 0) return [];
  throwAway(trash, appId, Object.fromEntries(left.map(({ id, path }) => [id, path])));
  return left.map(({ className }) => className);
}
