// Workers Sites in an upload of Wrangler. Their files were sent before, in sessions, by the keys of the manifest.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { BuildFailure } from '../failure.ts';
import type { Assets, Module } from '../release.ts';
import { SITE_MANIFEST, SITE_NAMESPACE } from '../workers-site/manifest.ts';
import {
  ACCOUNT_FILE,
  ASSETS,
  checkManifest,
  FILES,
  knownAssets,
  link,
  MANIFEST_FILE,
  type Manifest,
  readSession,
  type SessionPlace,
} from './assets.ts';
import type { Metadata } from './metadata.ts';

/** Whether an upload has a site, and its files were sent to the namespace of its Worker. */
export function hasSite({ bindings }: Metadata, modules: Module[], owner: string): boolean {
  const namespace = `__${owner.slice(owner.indexOf('/') + 1)}-workers_sites_assets`;
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
export function placeSite({ out, sessions, owner, releases }: SessionPlace, assetsMb: number): Assets {
  const path = `modules/${SITE_MANIFEST}`;
  const keys = keysOf(readFileSync(join(out, path), 'utf8'));
  const sent = sentFiles(sessions, owner);
  const known = knownAssets(releases);
  const manifest: Manifest = {};
  const sources = new Map<string, string>();
  for (const [name, key] of Object.entries(keys)) {
    const file = sent.get(`/${key}`);
    const from = file && (file.path ?? known.get(file.hash));
    if (from === undefined)
      throw new BuildFailure(`the file ${JSON.stringify(name)} of the site was not sent: deploy again`);
    manifest[`/${name}`] = { hash: file!.hash, size: file!.size };
    sources.set(`/${name}`, from);
  }
  checkManifest(manifest, assetsMb);
  mkdirSync(join(out, ASSETS), { recursive: true });
  for (const [name, from] of sources) {
    mkdirSync(dirname(join(out, ASSETS, name)), { recursive: true });
    link(from, join(out, ASSETS, name));
  }
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

function keysOf(text: string): Record<string, string> {
  try {
    const keys: unknown = JSON.parse(text);
    const isMap = typeof keys === 'object' && keys !== null && !Array.isArray(keys);
    if (isMap && Object.values(keys).every((key) => typeof key === 'string'))
      return keys as Record<string, string>;
  } catch {}
  throw new BuildFailure(`the module ${SITE_MANIFEST} must be a JSON object with a key for each path`);
}

interface SentFile {
  hash: string;
  size: number;
  /** `undefined` when a release of the app has a file with this hash. */
  path: string | undefined;
}

/** Returns the files in the owner's sessions, by key with a leading slash. */
function sentFiles(sessions: string, owner: string): Map<string, SentFile> {
  const files = new Map<string, SentFile>();
  const account = owner.slice(0, owner.indexOf('/'));
  for (const id of readdirSync(sessions)) {
    try {
      // The sessions of others may have long lists.
      if (readFileSync(join(sessions, id, ACCOUNT_FILE), 'utf8') !== account) continue;
      const session = readSession(sessions, id);
      if (session.owner !== owner || session.hashing !== 'sha256') continue;
      const here = new Set(readdirSync(join(sessions, id, FILES)));
      for (const [key, { hash, size }] of Object.entries(session.manifest)) {
        const path = here.has(hash) ? join(sessions, id, FILES, hash) : undefined;
        if (path !== undefined || !session.missing.includes(hash)) files.set(key, { hash, size, path });
      }
    } catch {
      // The session was removed meanwhile.
    }
  }
  return files;
}
