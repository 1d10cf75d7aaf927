// The releases that an app keeps on disk: so that it can go back to one.
import { existsSync } from 'node:fs';
import { link, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RELEASE_FILE, type Release } from '../../bundler/release.ts';
import { placeRelease } from './release.ts';

/**
 * Makes an earlier release the release of another deploy: the same files, which no release ever changes, under a
 * directory of its own. Linked, so it takes no space.
 * @throws {Error} when the earlier one is gone
 */
export async function reuseRelease(earlier: string, directory: string, deployId: string): Promise<void> {
  const beside = `${directory}.new`;
  if (!existsSync(earlier)) throw new Error('that release is no longer kept');
  try {
    const release = JSON.parse(await readFile(join(earlier, RELEASE_FILE), 'utf8')) as Release;
    await rm(beside, { recursive: true, force: true });
    await linkFiles(earlier, beside);
    // A file of its own: the linked one is the earlier release's.
    await rm(join(beside, RELEASE_FILE));
    await placeRelease({ ...release, deployId }, beside, directory);
  } catch (error) {
    await rm(beside, { recursive: true, force: true });
    throw error;
  }
}

/**
 * Removes every release of an app but those of the named deploys, and what cut builds left. No build of the app runs.
 * @param releases the directory of the app's releases
 */
export async function pruneReleases(releases: string, kept: ReadonlySet<string>): Promise<void> {
  const removed = (await readdir(releases)).filter((name) => !kept.has(name));
  await Promise.all(removed.map((name) => rm(join(releases, name), { recursive: true, force: true })));
}

async function linkFiles(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o700 });
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name);
    const target = join(to, entry.name);
    if (entry.isDirectory()) await linkFiles(source, target);
    else await link(source, target);
  }
}
