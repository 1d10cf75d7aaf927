// The manifest of Workers Sites: the key of each file, by its path.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { BuildFailure } from '../failure.ts';
import { filesIn } from '../files-in.ts';

/** The name of the module with the manifest. */
export const SITE_MANIFEST = '__STATIC_CONTENT_MANIFEST';
/** The binding of the KV namespace from which the Worker reads the files, by the keys of the manifest. */
export const SITE_NAMESPACE = '__STATIC_CONTENT';
/** Maximum bytes of a key, as in KV. */
const KEY_BYTES = 512;
const HASH_DIGITS = 10;

/**
 * Returns the key of each file in a directory, by its path. As in Wrangler, a key changes with the file's content.
 * @throws {BuildFailure} for a key that is too long
 */
export function manifestOf(directory: string): Record<string, string> {
  return Object.fromEntries(filesIn(directory).map((path) => [path, keyOf(directory, path)]));
}

function keyOf(directory: string, path: string): string {
  const hash = createHash('sha256')
    .update(readFileSync(join(directory, path)))
    .digest('hex');
  const { dir, name, ext } = posix.parse(path);
  const key = posix.join(dir, `${name}.${hash.slice(0, HASH_DIGITS)}${ext}`);
  if (Buffer.byteLength(key) > KEY_BYTES)
    throw new BuildFailure(`site: the key ${key} has more than ${KEY_BYTES} bytes: shorten the path`);
  return key;
}
