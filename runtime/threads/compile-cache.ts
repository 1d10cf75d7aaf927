// What Node has compiled of our own code, types stripped, and keeps on disk for the next start: see `../start.js`.
import { readdir } from 'node:fs/promises';
import { getCompileCacheDir } from 'node:module';
import { dirname, join } from 'node:path';
import { removeTree } from '../disk/remove.ts';

/** A Cellar that has used all of its parts has about 2,000. Each place that Cellar was ever installed at adds its own. */
const MOST_FILES = 10_000;

/** Where this process keeps what it has compiled; null when its start found no good place for that. */
export function compiledDirectory(): string | null {
  const own = getCompileCacheDir();
  return own === undefined ? null : dirname(own);
}

/** What a thread or a process has in its environment so that it uses what this process uses; empty when this process compiles everything. */
export function compileCache(): Record<string, string> {
  const directory = compiledDirectory();
  return directory === null ? {} : { NODE_COMPILE_CACHE: directory };
}

/** Removes what other versions of Node have compiled, or everything when it has become too much. */
export async function tidyCompiled(): Promise<void> {
  const directory = compiledDirectory();
  // A place that Node's own variable names is not ours to tidy up.
  if (directory === null || process.env.NODE_COMPILE_CACHE) return;
  const files = await readdir(directory, { recursive: true });
  const isTooMuch = files.length > MOST_FILES;
  // Node names its directories by its version, then by what else the code depends on.
  for (const name of files)
    if (/^v\d[^/]*$/.test(name) && (isTooMuch || !name.startsWith(`${process.version}-`)))
      await removeTree(join(directory, name));
}
