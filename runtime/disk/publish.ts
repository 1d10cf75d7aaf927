// A directory made known under its name: whole and on disk, or not at all.
import { readdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncFile } from '../../bundler/sync.ts';
import { removeTree } from './remove.ts';

/**
 * Renames `beside` to `directory`, which is replaced. Its own files and folders are on disk before that, so it survives a
 * power cut. What lies deeper must be there already: how much that is, a build decides.
 */
export async function publish(beside: string, directory: string): Promise<void> {
  const names = await readdir(beside);
  await Promise.all(names.map((name) => syncFile(join(beside, name))));
  await syncFile(beside);
  await removeTree(directory);
  await rename(beside, directory);
  await syncFile(dirname(directory));
}
