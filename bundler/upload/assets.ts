// Links the assets of an upload into a release. Wrangler first sends a list of all assets with their hashes, which starts a
// session. Then it sends the assets that Cellar lacks. The upload of the Worker names the session.
import {
  copyFileSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, extname, join } from 'node:path';
import { setContentTime } from '../content-time.ts';
import { BuildFailure } from '../failure.ts';
import { MAX_ENTRIES, RULES_BYTES } from '../limits.ts';
import type { Assets } from '../release.ts';
import type { Metadata } from './metadata.ts';

/** File in the directory of an uploaded release: the hashes of its assets, by path. */
export const MANIFEST_FILE = 'assets.json';
/** File in a session's directory: the `Session` as JSON. */
export const SESSION_FILE = 'session.json';
/** File in a session's directory: the id of the account that started the session. */
export const ACCOUNT_FILE = 'account';
export const FILES = 'files';
export const ASSETS = 'assets';
/** Maximum bytes of one asset, as in Wrangler. */
export const ASSET_BYTES = 25 * 2 ** 20;
const NAME_BYTES = 255;
const PATH_BYTES = 1024;
const HASH = /^[0-9a-f]{32}$/;
export const SESSION_ID = /^[0-9a-z]{52}$/;

/** The message about an unknown session. */
export const NO_SESSION = 'the session of the assets is not known here, or has ended: deploy again';

/** The assets of a Worker, by URL path with a leading slash. */
export type Manifest = Record<string, { hash: string; size: number }>;

/** The content of `SESSION_FILE`. `owner`: see `SessionPlace.owner`. */
export interface Session {
  owner: string;
  /** The hash function of `manifest`. Omitted: Wrangler's. */
  hashing?: 'sha256';
  manifest: Manifest;
  /** Hashes of the assets that Cellar lacked at the start of the session. */
  missing: string[];
}

/** Where the files of an upload are, and where its release is made. */
export interface SessionPlace {
  out: string;
  /** The directory of all sessions. */
  sessions: string;
  /** The account's id, a slash and the script's name. Only the owner that started a session can use it. */
  owner: string;
  /** The directory of the app's releases, whose assets can be used again. Null for a new app. */
  releases: string | null;
}

/** Checks a manifest. @throws {BuildFailure} for an invalid path, hash or size, and for too many assets or MiB */
export function checkManifest(value: unknown, assetsMb: number): Manifest {
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw new BuildFailure('manifest must be an object of paths');
  const entries = Object.entries(value as Record<string, unknown>);
  if (entries.length > MAX_ENTRIES)
    throw new BuildFailure(`there are ${entries.length} assets; at most ${MAX_ENTRIES} are allowed`);
  let bytes = 0;
  const folders = new Set<string>();
  for (const [path, entry] of entries) {
    const { hash, size } = (entry ?? {}) as { hash?: unknown; size?: unknown };
    const shown = JSON.stringify(path.slice(0, 200));
    const fault = pathFault(path);
    if (fault !== null) throw new BuildFailure(`the asset ${shown} ${fault}`);
    if (typeof hash !== 'string' || !HASH.test(hash))
      throw new BuildFailure(`the asset ${shown} has no hash of 32 hexadecimal digits`);
    if (typeof size !== 'number' || !Number.isInteger(size) || size < 0 || size > ASSET_BYTES)
      throw new BuildFailure(`the asset ${shown} must have 0 to ${ASSET_BYTES} bytes`);
    bytes += size;
    for (let folder = dirname(path); folder !== '/'; folder = dirname(folder)) folders.add(folder);
  }
  const both = entries.find(([path]) => folders.has(path));
  if (both)
    throw new BuildFailure(
      `the path ${JSON.stringify(both[0])} is both an asset and a folder of other assets`,
    );
  if (folders.size + entries.length > MAX_ENTRIES)
    throw new BuildFailure(`there are more than ${MAX_ENTRIES} assets and folders`);
  if (bytes > assetsMb * 2 ** 20)
    throw new BuildFailure(`the assets have more than the ${assetsMb} MiB that are allowed`);
  return value as Manifest;
}

function pathFault(path: string): string | null {
  if (!path.startsWith('/') || path.endsWith('/')) return 'must begin with a slash and name a file';
  if (!path.isWellFormed()) return 'must be valid Unicode';
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is refused
  if (/[\u0000-\u001f\u007f\\]/.test(path)) return 'must not have control characters or backslashes';
  if (Buffer.byteLength(path) > PATH_BYTES) return `must have at most ${PATH_BYTES} bytes`;
  for (const part of path.slice(1).split('/')) {
    if (part === '' || part === '.' || part === '..')
      return 'must not have an empty part between two slashes, or . or ..';
    if (Buffer.byteLength(part) > NAME_BYTES) return `must have at most ${NAME_BYTES} bytes in each part`;
  }
  return null;
}

/** Returns the file extension for each hash: a hash covers a file's contents and its extension. */
export function extensionsOf(manifest: Manifest): Map<string, string> {
  return new Map(Object.entries(manifest).map(([path, { hash }]) => [hash, extname(path).slice(1)]));
}

/**
 * Returns the paths of assets, by content hash. Searches the app's uploaded releases that are still on the disk.
 * @param releases the directory of the app's releases; `null` for a new app
 */
export function knownAssets(releases: string | null): Map<string, string> {
  const known = new Map<string, string>();
  for (const name of releases === null ? [] : names(releases)) {
    const directory = join(releases!, name);
    let manifest: Manifest;
    try {
      manifest = JSON.parse(readFileSync(join(directory, MANIFEST_FILE), 'utf8')) as Manifest;
    } catch {
      continue;
    }
    for (const [path, { hash }] of Object.entries(manifest)) known.set(hash, join(directory, ASSETS, path));
  }
  return known;
}

/**
 * Reads a session by its id.
 * @throws {BuildFailure} when it does not exist, or has ended
 */
export function readSession(sessions: string, id: string): Session {
  const gone = () => new BuildFailure(NO_SESSION);
  if (!SESSION_ID.test(id)) throw gone();
  try {
    return JSON.parse(readFileSync(join(sessions, id, SESSION_FILE), 'utf8')) as Session;
  } catch {
    throw gone();
  }
}

/** Returns the session id in a token, which has Wrangler's format: see `sessionToken` of the handlers. */
function sessionOf(token: string): string {
  return token.split('.')[2] ?? '';
}

/**
 * Creates hard links, which take no space, to the assets of an upload in the upload's directory.
 * @returns `null` when the upload has no assets
 * @throws {BuildFailure} as `linkAssets` does; for an assets binding without assets, and for rules that are too large
 */
export function placeAssets(
  { assets, bindings }: Metadata,
  options: SessionPlace,
  hasWorker: boolean,
): Assets | null {
  const binding = bindings.find(({ type }) => type === 'assets')?.name ?? null;
  if (assets?.jwt === undefined) {
    if (binding !== null)
      throw new BuildFailure(`the binding ${binding} is for assets, and the upload has none`);
    return null;
  }
  linkAssets(sessionOf(assets.jwt), options);
  const { config } = assets;
  const rules = {
    ...(config._headers !== undefined && { headers: rule('_headers', config._headers) }),
    ...(config._redirects !== undefined && { redirects: rule('_redirects', config._redirects) }),
  };
  return {
    directory: ASSETS,
    binding,
    notFoundHandling: config.not_found_handling ?? 'none',
    htmlHandling: config.html_handling ?? 'auto-trailing-slash',
    runWorkerFirst: hasWorker ? (config.run_worker_first ?? false) : false,
    ...(config.base_path !== undefined && { basePath: config.base_path }),
    rules,
  };
}

/**
 * Creates hard links to the files of a session in `out`.
 * @returns the manifest of the session
 * @throws {BuildFailure} for an unknown session, for a session of another owner, and for a missing or incomplete asset
 */
export function linkAssets(id: string, { out, sessions, owner, releases }: SessionPlace): Manifest {
  const session = readSession(sessions, id);
  if (session.owner !== owner)
    throw new BuildFailure('the session of the assets belongs to another Worker: deploy again');
  const { manifest } = session;
  const sent = new Set(names(join(sessions, id, FILES)));
  const known = knownAssets(releases);
  for (const [path, { hash, size }] of Object.entries(manifest)) {
    const from = sent.has(hash) ? join(sessions, id, FILES, hash) : known.get(hash);
    if (from === undefined)
      throw new BuildFailure(`the asset ${JSON.stringify(path)} was declared but never uploaded`);
    placeAsset(from, join(out, ASSETS), path, size);
  }
  mkdirSync(join(out, ASSETS), { recursive: true });
  writeFileSync(join(out, MANIFEST_FILE), JSON.stringify(manifest));
  return manifest;
}

/**
 * Creates a hard link to an asset at its path in the directory of all assets.
 * @param assets the directory of all assets
 * @param size the asset's bytes, as the manifest says
 * @throws {BuildFailure} when the file has another size, or does not exist
 */
export function placeAsset(from: string, assets: string, path: string, size: number): void {
  // After a power cut a file may exist without its contents. An expired session may have been removed since the search.
  if (statSync(from, { throwIfNoEntry: false })?.size !== size)
    throw new BuildFailure(
      `the asset ${JSON.stringify(path)} does not have the ${size} bytes that were announced: deploy again`,
    );
  const to = join(assets, path);
  mkdirSync(dirname(to), { recursive: true });
  link(from, to);
}

function rule(name: string, text: string): string {
  if (Buffer.byteLength(text) > RULES_BYTES)
    throw new BuildFailure(`assets: ${name} has more than ${RULES_BYTES / 2 ** 20} MiB`);
  return text;
}

/** Creates a hard link, or a copy of a file with too many links. */
function link(from: string, to: string): void {
  try {
    linkSync(from, to);
  } catch (error) {
    // EMLINK: the file has as many hard links as the file system allows.
    if ((error as NodeJS.ErrnoException).code !== 'EMLINK') throw error;
    copyFileSync(from, to);
    setContentTime(to);
  }
}

function names(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch {
    return [];
  }
}
