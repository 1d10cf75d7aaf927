// Makes a bundled directory a release: writes its description, and moves it into place at once.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RELEASE_FILE, type Release } from '../../bundler/release.ts';
import { publish } from '../machine/publish.ts';

/** Writes `release.json` into `bundled` and makes it the release in `directory`. Nothing changes it afterwards. */
export async function placeRelease(release: Release, bundled: string, directory: string): Promise<void> {
  await writeFile(join(bundled, RELEASE_FILE), JSON.stringify(release, null, 2));
  await publish(bundled, directory);
}
