// Asset upload sessions on disk. Runs in a thread: a tenant decides the number and size of assets.
import { createHash, randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import blake3 from 'blake3-wasm';
import { setContentTime } from '../../bundler/content-time.ts';
import { BuildFailure } from '../../bundler/failure.ts';
import {
  ACCOUNT_FILE,
  ASSET_BYTES,
  checkManifest,
  extensionsOf,
  FILES,
  knownAssets,
  type Manifest,
  readSession,
  SESSION_FILE,
  type Session,
} from '../../bundler/upload/assets.ts';
import { newId } from '../../handlers/contract/id.ts';

/** Maximum bytes of assets that Wrangler sends in one body. */
const BUCKET_BYTES = 8 * 2 ** 20;
/** Maximum assets that Wrangler sends in one body. */
const BUCKET_FILES = 500;
/** Maximum files of Workers Sites in one body, as in KV. */
const SITE_FILES = 10_000;
/** Hexadecimal digits of Wrangler's asset hashes. */
const HASH_DIGITS = 32;
const ID_DIGITS = 'abcdefghijklmnopqrstuvwxyz234567';

/** A started session. `buckets`: hashes of the assets to send, one list for each body. */
export interface Started {
  session: string;
  buckets: string[][];
}

/** Who begins a session, and its limits. */
export interface StartOptions extends Pick<Session, 'owner' | 'hashing'> {
  account: string;
  releases: string | null;
  assetsMb: number;
}

/**
 * Starts a session of assets.
 * @param body the path of a file with the manifest as JSON
 * @param releases the directory of the app's releases, or `null` for a new app
 * @throws {BuildFailure} for an invalid manifest
 */
export function startSession(
  sessions: string,
  body: string,
  { owner, account, releases, assetsMb, hashing }: StartOptions,
): Started {
  const manifest = checkManifest(
    (jsonOf(readFileSync(body, 'utf8')) as { manifest?: unknown } | null)?.manifest,
    assetsMb,
  );
  const session = secretId();
  const directory = join(sessions, session);
  mkdirSync(join(directory, FILES), { recursive: true, mode: 0o700 });
  const missing = missingOf(manifest, knownAssets(releases));
  const described: Session = {
    owner,
    ...(hashing && { hashing }),
    manifest,
    missing: missing.map(([hash]) => hash),
  };
  writeFileSync(join(directory, SESSION_FILE), JSON.stringify(described));
  writeFileSync(join(directory, ACCOUNT_FILE), account);
  return { session, buckets: bucketsOf(missing) };
}

/**
 * Stores the assets of a body. Each is a part named by its hash, with its contents in base64.
 * @returns whether the session now has all assets
 * @throws {BuildFailure} naming an asset that does not match its hash, is too large, or is not in the session's manifest
 */
export async function keepAssets(
  sessions: string,
  session: string,
  { body, contentType }: { body: string; contentType: string },
): Promise<boolean> {
  const { manifest, missing, hashing } = readSession(sessions, session);
  const extensions = extensionsOf(manifest);
  const parts = await partsOf(readFileSync(body), { contentType, isFolder: hashing === 'sha256' });
  const files = join(sessions, session, FILES);
  for (const [hash, part] of parts) {
    const extension = extensions.get(hash);
    if (extension === undefined)
      throw new BuildFailure(
        `the asset ${JSON.stringify(hash.slice(0, 100))} is not of this session: deploy again`,
      );
    const text = typeof part === 'string' ? part : await part.text();
    const bytes = Buffer.from(text, 'base64');
    if (bytes.length > ASSET_BYTES)
      throw new BuildFailure(`the asset ${hash} has more than ${ASSET_BYTES} bytes`);
    const found = hashing === 'sha256' ? sha256(bytes) : wranglersHash(bytes, extension);
    if (found !== hash)
      throw new BuildFailure(`the bytes that were sent for the asset ${hash} have another hash, ${found}`);
    const beside = join(files, `${hash}.${newId()}`);
    // Synced to disk later, with the version that uses it.
    writeFileSync(beside, bytes);
    setContentTime(beside);
    renameSync(beside, join(files, hash));
  }
  const here = new Set(readdirSync(files));
  return missing.every((hash) => here.has(hash));
}

/** A file of Workers Sites in a batch. */
interface SiteFile {
  key: string;
  value: string;
  base64?: boolean;
}

/**
 * Stores a batch of files of Workers Sites as a session that has them all.
 * @param body the path of a file with the batch as JSON
 * @returns the number of files
 * @throws {BuildFailure} for an invalid batch
 */
export function keepSite(
  sessions: string,
  body: string,
  { owner, account, assetsMb }: Omit<StartOptions, 'hashing' | 'releases'>,
): number {
  const batch = jsonOf(readFileSync(body, 'utf8'));
  if (!Array.isArray(batch) || batch.length > SITE_FILES || !batch.every(isSiteFile))
    throw new BuildFailure(
      `the body must be a list of at most ${SITE_FILES} files, each with the texts "key" and "value"`,
    );
  const directory = join(sessions, secretId());
  mkdirSync(join(directory, FILES), { recursive: true, mode: 0o700 });
  try {
    const manifest: Manifest = {};
    for (const { key, value, base64 } of batch) {
      const bytes = Buffer.from(value, base64 ? 'base64' : 'utf8');
      const hash = sha256(bytes);
      manifest[`/${key}`] = { hash, size: bytes.length };
      // Synced to disk later, with the version that uses it.
      writeFileSync(join(directory, FILES, hash), bytes);
    }
    checkManifest(manifest, assetsMb);
    const session: Session = { owner, hashing: 'sha256', manifest, missing: [] };
    writeFileSync(join(directory, SESSION_FILE), JSON.stringify(session));
    // Written last: without this file, no upload uses the session.
    writeFileSync(join(directory, ACCOUNT_FILE), account);
  } catch (error) {
    rmSync(directory, { recursive: true, force: true });
    throw error;
  }
  return batch.length;
}

function isSiteFile(value: unknown): value is SiteFile {
  const { key, value: text } = (value ?? {}) as Record<string, unknown>;
  return typeof key === 'string' && typeof text === 'string';
}

/** Returns the parts of a body by name: a form of Wrangler, or the JSON of an uploaded folder. */
async function partsOf(
  body: Buffer<ArrayBuffer>,
  { contentType, isFolder }: { contentType: string; isFolder: boolean },
): Promise<Iterable<[string, string | File]>> {
  if (isFolder) return Object.entries(jsonOf(body.toString('utf8')) as Record<string, string>);
  const form = await new Response(body, { headers: { 'content-type': contentType } })
    .formData()
    .catch(() => null);
  if (form === null) throw new BuildFailure('the body is not a complete multipart/form-data');
  return form;
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex').slice(0, HASH_DIGITS);
}

function wranglersHash(bytes: Buffer, extension: string): string {
  return blake3
    .hash(bytes.toString('base64') + extension)
    .toString('hex')
    .slice(0, HASH_DIGITS);
}

/** Returns an unguessable id: whoever knows it may send assets. */
function secretId(): string {
  return [...randomBytes(52)].map((byte) => ID_DIGITS[byte % 32]).join('');
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new BuildFailure('the body is not JSON');
  }
}

/** Returns the hashes of a manifest that `known` lacks, with their sizes in bytes, without duplicates. */
function missingOf(manifest: Manifest, known: Map<string, string>): [string, number][] {
  const all = new Map(Object.values(manifest).map(({ hash, size }) => [hash, size]));
  return [...all].filter(([hash]) => !known.has(hash));
}

function bucketsOf(missing: [string, number][]): string[][] {
  const buckets: string[][] = [];
  let bytes = Number.POSITIVE_INFINITY;
  for (const [hash, size] of missing) {
    const last = buckets.at(-1);
    if (last === undefined || bytes + size > BUCKET_BYTES || last.length === BUCKET_FILES) {
      buckets.push([hash]);
      bytes = size;
    } else {
      last.push(hash);
      bytes += size;
    }
  }
  return buckets;
}
