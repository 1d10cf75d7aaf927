// Files of deleted apps, kept for a week in case a deletion was a mistake.
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { syncFile } from '../../bundler/sync.ts';
import { log, reason } from '../log.ts';
import { removeTree } from './remove.ts';

/** How long files of a deleted app are kept, in ms. */
export const KEPT_MS = 7 * 24 * 60 * 60_000;
/** Suffix of entries that the next emptying removes: it reads the number after the last `-` as the time of deletion. */
const LONG_AGO = '-0';

/**
 * Moves an app's files into the trash. Skips missing ones.
 * @param belongings the old path of each file, by its name in the trash
 * @param at in ms since 1970
 * @returns their new directory
 */
export function moveToTrash(
  trash: string,
  appId: string,
  belongings: Record<string, string>,
  at = Date.now(),
): string {
  const place = placeOf(trash, appId, at);
  mkdirSync(place, { recursive: true, mode: 0o700 });
  for (const [name, path] of Object.entries(belongings)) {
    try {
      renameSync(path, join(place, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return place;
}

/**
 * Moves an app's files back from where `moveToTrash` has put them. Skips missing ones, so that it can be repeated.
 * @param belongings the old path of each file, by its name in the trash
 * @returns false when the trash was emptied; then nothing was done
 */
export function takeFromTrash(
  trash: string,
  appId: string,
  belongings: Record<string, string>,
  at: number,
): boolean {
  const place = placeOf(trash, appId, at);
  if (!existsSync(place)) return false;
  for (const [name, path] of Object.entries(belongings)) {
    if (existsSync(join(place, name))) renameSync(join(place, name), path);
  }
  return true;
}

function placeOf(trash: string, appId: string, at: number): string {
  return join(trash, `${appId}-${at}`);
}

/**
 * Moves a directory into the trash, and removes it there. The move has happened when the function returns its promise. After
 * a crash the directory is still whole in its old place, or not there at all. The next emptying removes the rest.
 */
export async function removeWhole(trash: string, path: string): Promise<void> {
  mkdirSync(trash, { recursive: true, mode: 0o700 });
  const place = join(trash, `${basename(path)}-${Date.now()}${LONG_AGO}`);
  renameSync(path, place);
  await syncFile(dirname(path));
  await removeTree(place);
}

/** Removes entries that are older than seven days at `now`. Logs each failed removal. */
export async function emptyTrash(trash: string, now = Date.now()): Promise<void> {
  for (const { name, thrownAt } of await listTrash(trash)) {
    if (now - thrownAt > KEPT_MS) await removeTrash(trash, name);
  }
}

/** Removes the oldest entries until `enough` resolves with true. Logs each failed removal. */
export async function emptyTrashUntil(enough: () => Promise<boolean>, trash: string): Promise<void> {
  for (const { name } of await listTrash(trash)) {
    if (await enough()) return;
    log('warn', 'the disk has too little free space: trash is removed early', { name });
    await removeTrash(trash, name);
  }
}

/** Returns the entries of the trash, the oldest first. `thrownAt`: in ms since 1970. */
async function listTrash(trash: string): Promise<{ name: string; thrownAt: number }[]> {
  const names = await readdir(trash).catch(() => []);
  return names
    .map((name) => ({ name, thrownAt: Number(name.split('-').at(-1)) }))
    .sort((a, b) => a.thrownAt - b.thrownAt);
}

async function removeTrash(trash: string, name: string): Promise<void> {
  const isBegun = name.endsWith(LONG_AGO);
  const place = join(trash, isBegun ? name : name + LONG_AGO);
  try {
    // Renames it first, so that no app is undeleted with only a part of its files.
    if (!isBegun) renameSync(join(trash, name), place);
    await removeTree(place);
  } catch (error) {
    log('warn', 'a folder in the trash could not be removed', { name, error: reason(error) });
  }
}
