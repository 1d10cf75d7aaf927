// Keeps esbuild from reading source maps outside the project: the Worker's map would contain the names in them.
import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { isInside } from './path-containment.ts';

/** Matches where a comment of esbuild's syntax names a source map, except in a `data:` URL. Captures the URL. */
const MAP = /(?<=[#@] )sourceMappingURL=(?!data:[^,\s]*,)([^\t\v\f \p{Zs}\ufeff\n\r]*)/gu;

/**
 * Returns a module's text so that esbuild finds no map outside of `root`; `null` if the text can stay as it is.
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
    // The same length keeps every position. esbuild does not know this word.
    return isOutside ? whole.replace('URL', 'Url') : whole;
  });
  return changed === text ? null : changed;
}

/** Whether esbuild, which reads the text as a URL, might find a file outside the project. */
function isMapOutside(root: string, folder: string, url: string): boolean {
  // `//localhost/` names any file. Bytes that are not UTF-8 can name a link.
  if (/^(?:file:|\/\/)|%2[ef]|\ufffd/i.test(url)) return true;
  // In a URL, `a//..` is `a/`; as a path it is the folder of `a`.
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
