// Computes the cache key for bundles of our own code.
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** File with the names and versions of the packages. */
const LOCK = 'package-lock.json';
/** File with an id that changes at each boot of the machine. */
const BOOT_ID = '/proc/sys/kernel/random/boot_id';

/**
 * Returns a hash of sources in this repository, of package versions and of the boot id. The boot id is included because
 * cached bundles are not synced to the disk: a power cut may damage them.
 * @param folders paths of folders, relative to the repository
 * @param files paths of files, relative to the repository
 * @returns 64 hexadecimal digits
 */
export async function sourcesKey(folders: readonly string[], files: readonly string[] = []): Promise<string> {
  const entries = await Promise.all(
    folders.map((folder) => readdir(join(ROOT, folder), { recursive: true, withFileTypes: true })),
  );
  const sources = entries.flat().flatMap((each) => (each.isFile() ? join(each.parentPath, each.name) : []));
  const paths = [BOOT_ID, ...[LOCK, ...files].map((file) => join(ROOT, file)), ...sources.sort()];
  const contents = await Promise.all(paths.map((path) => readFile(path)));
  const hash = createHash('sha256');
  for (const [n, path] of paths.entries()) {
    const digest = createHash('sha256').update(contents[n]!).digest('hex');
    hash.update(`${path}\0${digest}\0`);
  }
  return hash.digest('hex');
}
