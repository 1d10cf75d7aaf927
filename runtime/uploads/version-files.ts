// Metadata files of uploads: of a version, beside its modules and assets, and of a session of assets.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bundle } from '../../bundler/release.ts';
import { ACCOUNT_FILE } from '../../bundler/upload/assets.ts';
import type { UploadedVersion } from '../../handlers/contract/host/host-releases.ts';

/** Contains an `UploadedVersion`: the uploader, the time and more. */
export const VERSION_FILE = 'version.json';
/** Contains a `Bundle`. */
export const BUNDLE_FILE = 'bundle.json';

/** Returns the directory of all versions. @param uploads that of all uploads */
export function versionsIn(uploads: string): string {
  return join(uploads, 'versions');
}

const ID = /^[0-9a-z]{16}$/;

/** Whether a name is that of a complete version's directory. */
export function isVersionId(name: string): boolean {
  return ID.test(name);
}

/** Returns the metadata of a version; `null` if there is no such version. @param versions the directory of all versions */
export async function readVersion(versions: string, id: string): Promise<UploadedVersion | null> {
  if (!isVersionId(id)) return null;
  const text = await readFile(join(versions, id, VERSION_FILE), 'utf8').catch(() => null);
  return text === null ? null : (JSON.parse(text) as UploadedVersion);
}

/** Returns the account of a session of assets; `null` if there is no such session. @param sessions the directory of all */
export function accountOfSession(sessions: string, session: string): Promise<string | null> {
  return readFile(join(sessions, session, ACCOUNT_FILE), 'utf8').catch(() => null);
}

/** Returns the account in the `owner` of a version or session, which is `<account>/<script>`. */
export function accountOf(owner: string): string {
  return owner.split('/', 1)[0]!;
}

export async function readBundle(directory: string): Promise<Bundle> {
  return JSON.parse(await readFile(join(directory, BUNDLE_FILE), 'utf8')) as Bundle;
}
