// A Worker's entry, as a Wrangler configuration names it.
import { extname } from 'node:path';
import { insidePath, isThere, pathWithin } from '../project/path-containment.ts';

/** Endings of files that Wrangler looks for where `main` has no ending, in its order. */
const ENDINGS = ['.ts', '.tsx', '.js', '.jsx', '.mjs'];

/**
 * Returns the absolute path of a Worker's entry, which must be there and in the tree.
 * @param root real path of the project
 * @param base directory of the configuration
 * @param what names the setting in the message
 * @throws {BuildFailure} when it is not there, or lies outside
 */
export function entryPath(root: string, base: string, main: string, what: string): string {
  const isWritten = (name: string) => isThere(root, pathWithin(root, base, name, what));
  const ending = extname(main) === '' ? ENDINGS.find((each) => isWritten(main + each)) : undefined;
  return insidePath(root, base, main + (ending ?? ''), what);
}
