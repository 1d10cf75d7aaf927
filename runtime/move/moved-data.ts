// A move copies an app's data to `moving/<app id>/<place>`. The copy replaces the old data once the host's database has the
// app's new place. After a kill, the next start finishes the replacement, or removes the copy.
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { syncFile } from '../../bundler/sync.ts';
import type { Place } from '../apps/known/open-apps.ts';
import type { Layout } from '../disk/data-directory.ts';
import { removeTree } from '../disk/remove.ts';
import { moveToTrash } from '../disk/trash.ts';
import { log, reason } from '../log.ts';

export type MovingPaths = Pick<Layout, 'data' | 'buckets' | 'trash' | 'allMoving' | 'moving'>;

/** Makes an empty directory for the data that an app gets by a move to `to`. */
export async function prepareMovedData({ moving }: MovingPaths, appId: string, to: Place): Promise<string> {
  await removeTree(moving(appId));
  const directory = join(moving(appId), to);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  return directory;
}

/** Returns the directory where a move to this machine prepares an app's R2 objects. The directory need not exist. */
export function preparedObjects({ moving }: Pick<MovingPaths, 'moving'>, appId: string): string {
  return join(moving(appId), 'buckets');
}

/** Replaces the data of a moved app by the prepared data. May be repeated after a failure. */
export async function useMovedData(paths: MovingPaths, appId: string, place: Place): Promise<void> {
  exchange(paths, appId, place);
  for (const directory of [dirname(paths.data(appId)), dirname(paths.buckets(appId))])
    if (existsSync(directory)) await syncFile(directory);
  await removeTree(paths.moving(appId)).catch((error: unknown) =>
    log('warn', 'files of a move are left until the next start', { app: appId, error: reason(error) }),
  );
}

/**
 * Finishes the moves of a killed host, or removes what they prepared. Call it before anything uses the data of apps.
 * @param placeOf returns where an app is; null for a deleted one
 */
export function finishMovedData(paths: MovingPaths, placeOf: (appId: string) => Place | null): void {
  if (!existsSync(paths.allMoving)) return;
  for (const appId of readdirSync(paths.allMoving)) {
    const place = placeOf(appId);
    if (place !== null) exchange(paths, appId, place);
  }
  rmSync(paths.allMoving, { recursive: true, force: true });
}

/** Replaces the old data by the prepared data, if there is any. May be repeated after an interruption. */
function exchange(paths: MovingPaths, appId: string, place: Place): void {
  const { data, trash, moving } = paths;
  const prepared = join(moving(appId), place);
  if (!existsSync(prepared)) return;
  if (place === 'bucket') moveToTrash(trash, appId, { data: data(appId) });
  else {
    // Before the data: once the prepared data has replaced the old, a repeated call returns early.
    exchangeObjects(paths, appId);
    // The data directory of an app that was in the bucket has only a cache.
    if (existsSync(data(appId))) renameSync(data(appId), join(moving(appId), 'cache'));
  }
  mkdirSync(dirname(data(appId)), { recursive: true, mode: 0o711 });
  renameSync(prepared, data(appId));
}

function exchangeObjects(paths: MovingPaths, appId: string): void {
  const { buckets, trash } = paths;
  const prepared = preparedObjects(paths, appId);
  if (!existsSync(prepared)) return;
  // The old directory is kept in the trash: it may have objects whose keys were too long for the bucket.
  moveToTrash(trash, appId, { buckets: buckets(appId) });
  mkdirSync(dirname(buckets(appId)), { recursive: true, mode: 0o700 });
  renameSync(prepared, buckets(appId));
}
