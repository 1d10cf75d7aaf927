// The releases that an app keeps on disk: so that it can go back to one.
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RELEASE_FILE } from '../../bundler/release.ts';
import { runChild } from '../machine/child.ts';
import { removeTree } from '../machine/remove.ts';
import { placeRelease, readRelease } from './release.ts';

const TIMEOUT_MS = 60_000;

/**
 * Makes an earlier release the release of another deploy: the same files, which no release ever changes, under a
 * directory of its own. Linked, so it takes no space.
 * @throws {Error} when the earlier one is gone
 */
export async function reuseRelease(earlier: string, directory: string, deployId: string): Promise<void> {
  const beside = `${directory}.new`;
  const release = await readRelease(earlier);
  if (release === null) throw new Error('that release is no longer kept');
  try {
    await removeTree(beside);
    await runChild(['cp', '-a', '-l', '--', earlier, beside], { timeoutMs: TIMEOUT_MS });
    // A file of its own: the linked one is the earlier release's.
    await rm(join(beside, RELEASE_FILE));
    // The files are on the disk, the folders that name them are new.
    await runChild(['find', beside, '-type', 'd', '-exec', 'sync', '--', '{}', '+'], {
      timeoutMs: TIMEOUT_MS,
    });
    await placeRelease({ ...release, deployId }, beside, directory);
  } catch (error) {
    await removeTree(beside);
    throw error;
  }
}

/**
 * Removes every release of an app but those of the named deploys, and what cut builds left. No build of the app runs.
 * @param releases the directory of the app's releases
 */
export async function pruneReleases(releases: string, kept: ReadonlySet<string>): Promise<void> {
  const removed = (await readdir(releases)).filter((name) => !kept.has(name));
  await Promise.all(removed.map((name) => removeTree(join(releases, name))));
}
