// Makes a bundled directory a release: writes its description, and moves it into place at once.
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BUNDLE_BYTES } from '../../bundler/limits.ts';
import { RELEASE_FILE, type Release } from '../../bundler/release.ts';
import { publish } from '../machine/publish.ts';

/** Bytes of a release's description: the bundle's, with storage names, indented. */
const RELEASE_BYTES = 4 * BUNDLE_BYTES;

/**
 * Writes `release.json` into `bundled` and makes it the release in `directory`. Nothing changes it afterwards.
 * @param bundled what lies in its folders is on the disk already
 */
export async function placeRelease(release: Release, bundled: string, directory: string): Promise<void> {
  await writeFile(join(bundled, RELEASE_FILE), JSON.stringify(release, null, 2));
  await publish(bundled, directory);
}

/**
 * The description of a release; `null` when there is none.
 * @throws {Error} when it is too large to be read at once
 */
export async function readRelease(directory: string): Promise<Release | null> {
  const file = await open(join(directory, RELEASE_FILE)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null;
    throw error;
  });
  if (file === null) return null;
  try {
    const { size } = await file.stat();
    if (size > RELEASE_BYTES)
      throw new Error(`${RELEASE_FILE} has ${size} bytes, more than ${RELEASE_BYTES}`);
    return JSON.parse(await file.readFile('utf8')) as Release;
  } finally {
    await file.close();
  }
}
