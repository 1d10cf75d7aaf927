// Workers Sites in an upload of Wrangler. Wrangler has sent their files before the upload, each with its key of the
// manifest. The host stored the files in sessions.
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BuildFailure } from '../failure.ts';
import type { Assets, Module } from '../release.ts';
import { SITE_MANIFEST, SITE_NAMESPACE } from '../workers-site/manifest.ts';
import {
  ACCOUNT_FILE,
  ASSETS,
  checkManifest,
  FILES,
  MANIFEST_FILE,
  type Manifest,
  placeAsset,
  readSession,
  type SessionPlace,
} from './assets.ts';
import type { Metadata } from './metadata.ts';

/**
 * Returns whether an upload has a manifest, and binds the namespace of this Worker's site.
 * @param script the Worker's name
 */
export function hasSite({ bindings }: Metadata, modules: Module[], script: string): boolean {
  const namespace = `__${script}-workers_sites_assets`;
  const isOwn = bindings.some(
    (each) => each.type === 'kv_namespace' && each.name === SITE_NAMESPACE && each.namespace_id === namespace,
  );
  return isOwn && modules.some(({ name, type }) => name === SITE_MANIFEST && type === 'text');
}

/**
 * Creates hard links to the files of a site in the directory of its upload.
 * @param assetsMb maximum MiB of the files
 * @throws {BuildFailure} naming a file that was not sent, or whose path is not valid
 */
export function placeSite(
  { out, sessions, owner }: Omit<SessionPlace, 'releases'>,
  assetsMb: number,
): Assets {
  const path = `modules/${SITE_MANIFEST}`;
  const sent = sentFiles(sessions, owner);
  const manifest: Manifest = {};
  const sources = new Map<string, string>();
  for (const [name, key] of Object.entries(siteKeys(join(out, path)))) {
    const file = sent.get(`/${key}`);
    if (file === undefined)
      throw new BuildFailure(`the file ${JSON.stringify(name)} of the site was not sent: deploy again`);
    manifest[`/${name}`] = { hash: file.hash, size: file.size };
    sources.set(`/${name}`, file.path);
  }
  checkManifest(manifest, assetsMb);
  mkdirSync(join(out, ASSETS), { recursive: true });
  for (const [name, from] of sources) placeAsset(from, join(out, ASSETS), name, manifest[name]!.size);
  writeFileSync(join(out, MANIFEST_FILE), JSON.stringify(manifest));
  return {
    directory: ASSETS,
    binding: null,
    notFoundHandling: 'none',
    htmlHandling: 'none',
    runWorkerFirst: true,
    siteManifest: path,
  };
}

/** Reads a manifest: the key of each file of a site, by path. @throws {BuildFailure} for an invalid manifest */
export function siteKeys(module: string): Record<string, string> {
  try {
    const keys: unknown = JSON.parse(readFileSync(module, 'utf8'));
    const isMap = typeof keys === 'object' && keys !== null && !Array.isArray(keys);
    if (isMap && Object.values(keys).every((key) => typeof key === 'string'))
      return keys as Record<string, string>;
  } catch {}
  throw new BuildFailure(`the module ${SITE_MANIFEST} must be a JSON object with a key for each path`);
}

interface SentFile {
  hash: string;
  size: number;
  path: string;
}

/**
 * Returns the files in the owner's sessions, by key with a leading slash. For a key in several sessions, returns the file of
 * the newest session.
 */
function sentFiles(sessions: string, owner: string): Map<string, SentFile> {
  const account = owner.slice(0, owner.indexOf('/'));
  const own = readdirSync(sessions).flatMap((id) => {
    try {
      // Checks the short account file first: sessions of other accounts may have long lists.
      if (readFileSync(join(sessions, id, ACCOUNT_FILE), 'utf8') !== account) return [];
      const session = readSession(sessions, id);
      if (session.owner !== owner || session.hashing !== 'sha256') return [];
      return { id, manifest: session.manifest, at: statSync(join(sessions, id)).mtimeMs };
    } catch {
      // The session was removed after `readdirSync`.
      return [];
    }
  });
  const files = new Map<string, SentFile>();
  for (const { id, manifest } of own.sort((a, b) => a.at - b.at))
    for (const [key, { hash, size }] of Object.entries(manifest))
      files.set(key, { hash, size, path: join(sessions, id, FILES, hash) });
  return files;
}
