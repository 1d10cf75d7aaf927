// The files that say what an upload is: a version, beside its modules and assets, and a session of assets.
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Bundle } from '../../bundler/release.ts';
import type { UploadedVersion } from '../../handlers/contract/host/host-releases.ts';

/** Who uploaded it, and when: an `UploadedVersion`. */
export const VERSION_FILE = 'version.json';
/** What it is: a `Bundle`. */
export const BUNDLE_FILE = 'bundle.json';
/** In a session's directory: the account whose session it is. */
export const ACCOUNT_FILE = 'account';

const ID = /^[0-9a-z]{16}$/;

/** Whether a name is that of a whole version's directory. */
export function isVersionId(name: string): boolean {
  return ID.test(name);
}

/** Who uploaded a version, and when; `null` for one that is not there. @param versions the directory of all versions */
export async function readVersion(versions: string, id: string): Promise<UploadedVersion | null> {
  if (!isVersionId(id)) return null;
  const text = await readFile(join(versions, id, VERSION_FILE), 'utf8').catch(() => null);
  return text === null ? null : (JSON.parse(text) as UploadedVersion);
}

/** The account whose session it is; `null` for one that is not there. @param sessions the directory of all sessions */
export function accountOfSession(sessions: string, session: string): Promise<string | null> {
  return readFile(join(sessions, session, ACCOUNT_FILE), 'utf8').catch(() => null);
}

/** The account in a version's owner. */
export function accountOf(owner: string): string {
  return owner.split('/', 1)[0]!;
}

/** The bundle of a version. */
export async function readBundle(directory: string): Promise<Bundle> {
  return JSON.parse(await readFile(join(directory, BUNDLE_FILE), 'utf8')) as Bundle;
}
