// Makes a bundled directory a release: writes what is known only now, and moves it into place at once.
import type { FileHandle } from 'node:fs/promises';
import { open, readdir, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Release } from '../../bundler/release.ts';
import { writeCellConfig } from '../fleets/config/cell-config.ts';

/** Files that are brought to disk side by side. */
const CONCURRENCY = 16;

/** A release's description, in its directory. */
export const RELEASE_FILE = 'release.json';

/** Writes `cell.capnp` and `release.json` into `bundled` and makes it the release in `directory`. */
export async function placeRelease(release: Release, bundled: string, directory: string): Promise<void> {
  await writeCellConfig(release, bundled);
  await writeReleaseFile(release, bundled);
  await publishRelease(bundled, directory);
}

export async function writeReleaseFile(release: Release, directory: string): Promise<void> {
  await writeFile(join(directory, RELEASE_FILE), JSON.stringify(release, null, 2));
}

/**
 * Renames `beside` to `directory`. Every file is on disk before that: what the database will call live must survive a
 * power cut.
 */
export async function publishRelease(beside: string, directory: string): Promise<void> {
  const paths = await readdir(beside, { recursive: true });
  const queue = [beside, ...paths.map((path) => join(beside, path))];
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (let path = queue.pop(); path !== undefined; path = queue.pop())
        await withFile(path, (file) => file.sync());
    }),
  );
  await rm(directory, { recursive: true, force: true });
  await rename(beside, directory);
  await withFile(dirname(directory), (file) => file.sync());
}

async function withFile(path: string, use: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path);
  try {
    await use(file);
  } finally {
    await file.close();
  }
}
