// The files that say what an upload is: a version, beside its modules and assets, and a session of assets.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bundle } from '../../bundler/release.ts';

/** Who uploaded it, and when: an `UploadedVersion`. */
export const VERSION_FILE = 'version.json';
/** What it is: a `Bundle`. */
export const BUNDLE_FILE = 'bundle.json';
/** In a session's directory: the account whose session it is. */
export const ACCOUNT_FILE = 'account';

/** The bundle of a version. */
export async function readBundle(directory: string): Promise<Bundle> {
  return JSON.parse(await readFile(join(directory, BUNDLE_FILE), 'utf8')) as Bundle;
}
