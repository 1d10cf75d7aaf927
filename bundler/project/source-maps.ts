// Keeps esbuild from reading source maps outside the project: it would copy names from them into the Worker's source map.
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { isInside } from './path-containment.ts';

/** Matches the part of a comment that names a source map for esbuild, except a `data:` URL. Captures the URL. */
const MAP = /(?<=[#@] )sourceMappingURL=(?!data:[^,\s]*,)([^\t\v\f \p{Zs}\ufeff\n\r]*)/gu;

/**
 * Returns a module's text, changed so that esbuild reads no source map outside `root`; `null` if no change is needed.
 * @param root real path of the project
 * @param path of the module
 */
export function withoutMapsOutside(root: string, path: string, bytes: Buffer): string | null {
  if (!bytes.includes('sourceMappingURL=')) return null;
  const text = bytes.toString('utf8');
  const folder = dirname(path);
  const changed = text.replace(MAP, (whole, url: string) => {
    // In some kinds of comments, these separators end the URL.
    const ended = url.split(/[\u2028\u2029]|\*\//, 1)[0]!;
    const isOutside = [url, ended].some((each) => isMapOutside(root, folder, each));
    // esbuild does not know the word with "Url". The length stays the same, so that all positions in the text stay correct.
    return isOutside ? whole.replace('URL', 'Url') : whole;
  });
  return changed === text ? null : changed;
}

/** Whether esbuild, which parses the text as a URL, might read a file outside the project. */
function isMapOutside(root: string, folder: string, url: string): boolean {
  // A URL that begins with `//localhost/` can name any file. A name with invalid UTF-8 cannot be checked, and may be a link.
  if (/^(?:file:|\/\/)|%2[ef]|\ufffd/i.test(url)) return true;
  // As a URL, `a//..` means `a/`. As a path, it means the folder that contains `a`.
  const empty = url.indexOf('//');
  if (empty !== -1 && url.includes('..', empty)) return true;
  let path: string;
  try {
    path = resolve(folder, decodeURIComponent(url.replace(/[?#].*$/s, '')));
  } catch {
    return true;
  }
  return existsSync(path) && !isInside(root, path);
}
