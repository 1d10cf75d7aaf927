import { readdirSync } from 'node:fs';
import { join, relative } from 'node:path';

/**
 * Returns the paths of all files below a directory, relative to it, sorted.
 * @param directory must have no symbolic links: `readdirSync` would follow them
 */
export function filesIn(directory: string): string[] {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => relative(directory, join(parentPath, name)))
    .sort();
}
