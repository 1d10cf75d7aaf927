// Makes a bundled directory a release: writes its description, then moves it into place in one step.
import { open, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { BUNDLE_BYTES } from '../../../bundler/limits.ts';
import {
  type Bundle,
  type MtlsBinding,
  type ObjectsElsewhere,
  RELEASE_FILE,
  type Release,
  type ReleasedMtlsBinding,
} from '../../../bundler/release.ts';
import type { DeployVersion } from '../../../handlers/contract/host/host-calls.ts';
import { newId } from '../../../handlers/contract/id.ts';
import { publish } from '../../disk/publish.ts';
import { resolveNames, type StorageNames } from '../../storage/names.ts';
import { BUNDLE_FILE } from '../../uploads/version-files.ts';

/** Maximum bytes of a release's description: a bundle's, plus storage names, and the indentation of older releases. */
const RELEASE_BYTES = 4 * BUNDLE_BYTES;

/**
 * Writes `release.json` into `bundled`, and renames that directory to `directory`. A release is never changed afterwards.
 * @param bundled the files in its folders must already be synced to the disk
 */
export async function placeRelease(release: Release, bundled: string, directory: string): Promise<void> {
  await writeFile(join(bundled, RELEASE_FILE), JSON.stringify(release));
  await publish(bundled, directory);
}

/** Returns the unique key of the class that a binding to another app names. @throws {BuildFailure} when there is none */
export type KeyOf = (named: ObjectsElsewhere) => Promise<string>;

/** Adds the client certificate to a binding. @throws {BuildFailure} when the account has no such certificate */
export type CertificateOf = (named: MtlsBinding) => Promise<ReleasedMtlsBinding>;

/**
 * Assigns storage to the bindings of a bundle, and makes it the release in `directory`.
 * @param to.version the uploaded version that becomes the release; left out for a fresh build
 * @param to.storage the app's storage names until now
 * @param to.isPreview whether the release is a preview's: then it gets no crons, and keeps a copy of `bundle`
 * @param to.keyOf returns the unique key of another app's class
 * @param to.certificateOf finds a client certificate of the owner
 * @param bundled the bundle's directory
 * @returns the release, and the storage names to keep once it is live
 */
export async function placeBundle(
  bundle: Bundle,
  to: {
    deployId: string;
    sha: string;
    version?: DeployVersion | undefined;
    storage: StorageNames;
    live: Release | null;
    isPreview: boolean;
    keyOf: KeyOf;
    certificateOf: CertificateOf;
  },
  bundled: string,
  directory: string,
): Promise<{ release: Release; storage: StorageNames }> {
  const { names, ...stored } = resolveNames(to.storage, bundle, to.live, newId);
  const { worker, exports, vars, assets, triggers, requiredSecrets, warnings } = bundle;
  const {
    workflows,
    rateLimits,
    services,
    dispatchNamespaces,
    storeSecrets,
    tailConsumers,
    outward,
    versionMetadata,
    workerLoaders,
    containers,
    cpuMs,
    prefill,
  } = bundle;
  const filled = [...stored.namespaces, ...(stored.buckets ?? [])].find(
    ({ binding }) => binding === prefill?.binding,
  );
  const elsewhere: NonNullable<Release['objectsElsewhere']> = [];
  for (const named of bundle.objectsElsewhere ?? [])
    elsewhere.push({ ...named, storageId: await to.keyOf(named) });
  const mtls = await Promise.all((bundle.mtlsCertificates ?? []).map(to.certificateOf));
  const own = {
    worker,
    exports,
    vars,
    assets,
    ...(workflows && { workflows }),
    ...(rateLimits && { rateLimits }),
    ...(services && { services }),
    ...(dispatchNamespaces && { dispatchNamespaces }),
    ...(storeSecrets && { storeSecrets }),
    ...(mtls.length > 0 && { mtlsCertificates: mtls }),
    ...(tailConsumers && { tailConsumers }),
    ...(elsewhere.length > 0 && { objectsElsewhere: elsewhere }),
    ...(outward && { outward }),
    ...(versionMetadata && {
      versionMetadata: {
        ...versionMetadata,
        id: to.version?.id ?? to.deployId,
        timestamp: to.version?.created_at ?? new Date().toISOString(),
      },
    }),
    ...(workerLoaders && { workerLoaders }),
    ...(containers && { containers }),
    ...(cpuMs !== undefined && { cpuMs }),
    ...(triggers && { triggers: to.isPreview ? { ...triggers, crons: [] } : triggers }),
    ...(requiredSecrets && { requiredSecrets }),
    ...(warnings && { warnings }),
    ...(prefill && filled && { prefill: { ...prefill, storageId: filled.storageId } }),
  };
  const release: Release = { format: 1, deployId: to.deployId, sha: to.sha, ...own, ...stored };
  if (to.isPreview) await writeFile(join(bundled, BUNDLE_FILE), JSON.stringify(bundle));
  await placeRelease(release, bundled, directory);
  return { release, storage: names };
}

/**
 * Returns the description of a release; `null` when it is missing.
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
