// Publishes a directory under its name: whole and on disk, or not at all.
import { readdir, rename } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncFile } from '../../bundler/sync.ts';
import { runChild } from '../processes/child.ts';
import { limited } from '../resources/limited.ts';
import { removeTree } from './remove.ts';

const SYNC_MS = 60_000;

/**
 * Renames `beside` to `directory`, which it replaces. First syncs the files and folders directly in `beside`, so that they
 * survive a power cut. The caller must have synced deeper entries (`syncFiles`): a build decides how many there are.
 */
export async function publish(beside: string, directory: string): Promise<void> {
  const names = await readdir(beside);
  await Promise.all(names.map((name) => syncFile(join(beside, name))));
  await syncFile(beside);
  await removeTree(directory);
  await rename(beside, directory);
  await syncFile(dirname(directory));
}

/**
 * Syncs files and folders below a directory, in child processes: there may be very many.
 * @param types `f`: files, `d`: folders
 */
export async function syncFiles(directory: string, types: ('f' | 'd')[] = ['f', 'd']): Promise<void> {
  for (const type of types)
    await runChild([...limited(), 'find', directory, '-type', type, '-exec', 'sync', '--', '{}', '+'], {
      timeoutMs: SYNC_MS,
    });
}
