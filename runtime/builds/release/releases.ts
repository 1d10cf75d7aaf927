// Makes a release of files that exist already: an earlier release, an uploaded version, or a preview's release.
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RELEASE_FILE, type Release, type Triggers } from '../../../bundler/release.ts';
import type { DeployVersion } from '../../../handlers/contract/host/host-calls.ts';
import { syncFiles } from '../../disk/publish.ts';
import { removeTree } from '../../disk/remove.ts';
import { runChild } from '../../processes/child.ts';
import { limited } from '../../resources/limited.ts';
import type { StorageNames } from '../../storage/names.ts';
import { BUNDLE_FILE, readBundle, VERSION_FILE } from '../../uploads/version-files.ts';
import { type CertificateOf, type KeyOf, placeBundle, placeRelease, readRelease } from './release.ts';

const TIMEOUT_MS = 60_000;
const NO_TRIGGERS: Triggers = { crons: [], producers: [], consumers: [] };

/** Option of `cp` that hard-links files, which takes no space. */
export const LINKED = '-l';
/** Option of `cp` that copies files, for a release that another user of the machine may read. */
export const COPIED = '--reflink=auto';

/** The parts of a release that another deploy of it may change. */
export type Retriggered = Partial<Triggers> & { workflows?: Release['workflows'] };

/**
 * Makes the release of another deploy from an earlier release: with the same files, which never change, in a directory of
 * its own.
 * @param retriggered replaces triggers and workflows of the earlier release; what it leaves out stays
 * @throws {Error} when the earlier release is gone
 */
export async function reuseRelease(
  earlier: string,
  directory: string,
  deployId: string,
  { workflows, ...triggers }: Retriggered = {},
  how: typeof LINKED | typeof COPIED = LINKED,
): Promise<void> {
  const beside = `${directory}.new`;
  const release = await readRelease(earlier);
  if (release === null)
    throw new Error('the release that this deploy reuses is no longer kept: deploy the code again');
  const changed = { ...NO_TRIGGERS, ...release.triggers, ...triggers };
  const hasTriggers = Object.values(changed).some((list) => list.length > 0);
  const { triggers: _, ...rest } = release;
  try {
    await copyTree(earlier, beside, how);
    // Removed, because writing to a hard link would change the earlier release.
    await rm(join(beside, RELEASE_FILE));
    const { versionMetadata } = rest;
    const reused = {
      ...rest,
      deployId,
      ...(versionMetadata && { versionMetadata: { id: release.deployId, ...versionMetadata } }),
      ...(hasTriggers && { triggers: changed }),
      ...(workflows && { workflows }),
    };
    await placeRelease(reused, beside, directory);
  } catch (error) {
    await removeTree(beside);
    throw error;
  }
}

/**
 * Makes an uploaded version, or a preview's release, a release of an app. A version's files are linked, so it takes no more
 * space. Between an app and a preview, which are of different users, they are copied.
 * @param upload the version's directory
 * @param directory the path of the new release. Its parent exists
 * @param to.live directory of the live release; null without one
 * @param to.isPreview whether the release is a preview's: it gets no crons, and keeps the bundle that it was made from
 * @returns the storage names to keep once it is live
 */
export async function placeUpload(
  upload: string,
  directory: string,
  to: {
    deployId: string;
    sha: string;
    version: DeployVersion | undefined;
    storage: StorageNames;
    live: string | null;
    isCopied: boolean;
    isPreview: boolean;
    keyOf: KeyOf;
    certificateOf: CertificateOf;
  },
): Promise<StorageNames> {
  const beside = `${directory}.new`;
  const bundle = await readBundle(upload);
  const live = to.live === null ? null : await readRelease(to.live);
  try {
    await copyTree(upload, beside, to.isCopied ? COPIED : LINKED);
    // The new release must not have the files that describe the uploaded version or the preview's release.
    for (const name of [VERSION_FILE, BUNDLE_FILE, RELEASE_FILE])
      await rm(join(beside, name), { force: true });
    return (await placeBundle(bundle, { ...to, live }, beside, directory)).storage;
  } catch (error) {
    await removeTree(beside);
    throw error;
  }
}

/** Copies or links a directory, and syncs its new files and folders to the disk. */
async function copyTree(from: string, to: string, how: typeof LINKED | typeof COPIED): Promise<void> {
  await removeTree(to);
  await runChild([...limited(), 'cp', '-a', how, '--', from, to], { timeoutMs: TIMEOUT_MS });
  // Hard-linked files were synced before; only their folders are new.
  await syncFiles(to, how === LINKED ? ['d'] : ['f', 'd']);
}
