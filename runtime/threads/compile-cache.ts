// Node's compile cache, on disk: it keeps Cellar's own code, with the types stripped, for the next start. See `../start.js`.
import { readdir } from 'node:fs/promises';
import { getCompileCacheDir } from 'node:module';
import { dirname, join } from 'node:path';
import { removeTree } from '../disk/remove.ts';

/** Maximum number of files in the cache. A Cellar that has used all its parts has about 2,000, for each install path. */
const MOST_FILES = 10_000;

/** Returns the directory of the compile caches of all Node versions; null when this process uses no compile cache. */
export function compiledDirectory(): string | null {
  const own = getCompileCacheDir();
  return own === undefined ? null : dirname(own);
}

/** Returns the environment that lets a thread or child share this process's compile cache; empty without a cache. */
export function compileCache(): Record<string, string> {
  const directory = compiledDirectory();
  return directory === null ? {} : { NODE_COMPILE_CACHE: directory };
}

/** Removes the caches of other Node versions, or everything when there are too many files. */
export async function tidyCompiled(): Promise<void> {
  const directory = compiledDirectory();
  // A directory set by Node's own variable is not ours to clean up.
  if (directory === null || process.env.NODE_COMPILE_CACHE) return;
  const files = await readdir(directory, { recursive: true });
  const isTooMuch = files.length > MOST_FILES;
  // The name of each directory begins with its Node version.
  for (const name of files)
    if (/^v\d[^/]*$/.test(name) && (isTooMuch || !name.startsWith(`${process.version}-`)))
      await removeTree(join(directory, name));
}
