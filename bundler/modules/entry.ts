// A Worker's entry, as a Wrangler configuration names it.
import { extname } from 'node:path';
import { insidePath, isThere, pathWithin } from '../project/path-containment.ts';

/** File extensions that Wrangler tries, in this order, when `main` has none. */
const ENDINGS = ['.ts', '.tsx', '.js', '.jsx', '.mjs'];

/**
 * Returns the absolute path of a Worker's entry, which must exist inside the project.
 * @param root real path of the project
 * @param base directory of the configuration
 * @param what names the setting in the message
 * @throws {BuildFailure} when it does not exist, or lies outside
 */
export function entryPath(root: string, base: string, main: string, what: string): string {
  const isWritten = (name: string) => isThere(root, pathWithin(root, base, name, what));
  const ending = extname(main) === '' ? ENDINGS.find((each) => isWritten(main + each)) : undefined;
  return insidePath(root, base, main + (ending ?? ''), what);
}
