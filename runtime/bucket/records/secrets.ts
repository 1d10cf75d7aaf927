// The secrets of this Cellar in the bucket, encrypted with the cluster key. Another machine needs them to decrypt secrets of
// apps, and to accept the same keys and sessions.
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { keptSecret, type Layout, writeAtomic } from '../../disk/data-directory.ts';
import { reason } from '../../log.ts';
import type { S3Place } from '../place.ts';
import { UnusableStore } from '../probe.ts';
import { smallObjects } from '../s3-store.ts';
import { ChangedObject, ifThere } from '../store.ts';

const NAME = 'secrets.json';
const CHECK = 'keeps the secrets of this Cellar';
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Writes this machine's secrets to the bucket, unless it has them. @throws {UnusableStore} as `fetchSecrets` does */
export async function storeSecrets(place: S3Place, paths: Layout, clusterKey: string): Promise<void> {
  const secrets = JSON.stringify(ownSecrets(paths));
  if ((await read(place, clusterKey)) === secrets) return;
  await smallObjects(place).write(NAME, seal(secrets, clusterKey)).catch(isAway);
}

/**
 * As `storeSecrets`, for one of several hosts. Never changes a secret in the bucket, because other hosts use it.
 * @throws {UnusableStore} also when this host has a different secret
 */
export async function shareSecrets(place: S3Place, paths: Layout, clusterKey: string): Promise<void> {
  const found = await read(place, clusterKey);
  const shared = found === null ? {} : (JSON.parse(found) as Record<string, string>);
  const own = ownSecrets(paths);
  const differing = Object.keys(own).filter(
    (name) => shared[name] !== undefined && shared[name] !== own[name],
  );
  if (differing.length > 0)
    throw new UnusableStore(
      CHECK,
      `the other hosts have another ${differing.join(' and ')} than this one: move this data directory away, and start with an empty one`,
    );
  const all = JSON.stringify({ ...shared, ...own });
  if (all === found) return;
  await smallObjects(place).write(NAME, seal(all, clusterKey)).catch(isAway);
}

/**
 * Makes the secrets of a new Cellar in an empty data directory, and stores them. If the bucket has secrets, fetches these.
 * @throws {UnusableStore} as `fetchSecrets` does
 */
export async function beginSecrets(place: S3Place, paths: Layout, clusterKey: string): Promise<void> {
  if (await fetchSecrets(place, paths, clusterKey, true)) return;
  for (const path of filesOf(paths)) keptSecret(path, path === paths.apiKey ? 'cellar_' : '');
  const sealed = seal(JSON.stringify(ownSecrets(paths)), clusterKey);
  await smallObjects(place)
    .writeIf(NAME, sealed, null)
    .catch((error: unknown) => {
      if (!(error instanceof ChangedObject)) isAway(error);
      return fetchSecrets(place, paths, clusterKey, true);
    });
}

/**
 * Writes the secrets of the bucket into a data directory.
 * @param replaces whether existing secrets in the directory are replaced. Default: they stay
 * @returns whether the bucket has secrets
 * @throws {UnusableStore} when they were encrypted with another cluster key, or the bucket does not answer
 */
export async function fetchSecrets(
  place: S3Place,
  paths: Layout,
  clusterKey: string,
  replaces = false,
): Promise<boolean> {
  const found = await read(place, clusterKey);
  if (found === null) return false;
  const secrets = JSON.parse(found) as Record<string, string>;
  for (const path of filesOf(paths)) {
    const secret = secrets[basename(path)];
    if (secret !== undefined && (replaces || !existsSync(path))) writeAtomic(path, `${secret}\n`);
  }
  return true;
}

function ownSecrets(paths: Layout): Record<string, string> {
  return Object.fromEntries(
    filesOf(paths)
      .filter((path) => existsSync(path))
      .map((path) => [basename(path), readFileSync(path, 'utf8').trim()]),
  );
}

function filesOf({ token, apiKey, alertKey, secretsKey, signInKey, hostSecret }: Layout): string[] {
  return [token, apiKey, alertKey, secretsKey, signInKey, hostSecret];
}

async function read(place: S3Place, clusterKey: string): Promise<string | null> {
  const found = await ifThere(smallObjects(place).read(NAME)).catch(isAway);
  return found && open(found, clusterKey, place.prefix + NAME);
}

function seal(text: string, clusterKey: string): Buffer<ArrayBuffer> {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, keyOf(clusterKey), nonce);
  const encrypted = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  const sealed = Buffer.concat([nonce, cipher.getAuthTag(), encrypted]).toString('base64');
  return Buffer.from(`${JSON.stringify({ format: 1, sealed })}\n`);
}

/** @param name of the object, for messages @throws {UnusableStore} */
function open(bytes: Buffer, clusterKey: string, name: string): string {
  try {
    const { format, sealed } = JSON.parse(bytes.toString('utf8')) as { format: number; sealed: string };
    if (format !== 1) throw new Error('a newer Cellar wrote them');
    const all = Buffer.from(sealed, 'base64');
    const tagEnd = NONCE_BYTES + TAG_BYTES;
    const decipher = createDecipheriv(CIPHER, keyOf(clusterKey), all.subarray(0, NONCE_BYTES), {
      authTagLength: TAG_BYTES,
    });
    decipher.setAuthTag(all.subarray(NONCE_BYTES, tagEnd));
    return decipher.update(all.subarray(tagEnd), undefined, 'utf8') + decipher.final('utf8');
  } catch {
    throw new UnusableStore(
      CHECK,
      `${name} cannot be decrypted: set RUNNER_CLUSTER_KEY as it was. If RUNNER_CLUSTER_KEY is right, the object is damaged: remove it, and a machine with the secrets writes it again`,
    );
  }
}

function isAway(error: unknown): never {
  throw new UnusableStore(CHECK, reason(error), true);
}

function keyOf(clusterKey: string): Buffer {
  return createHmac('sha256', clusterKey).update('secrets').digest();
}
