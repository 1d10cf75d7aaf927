// Matches paths by the patterns of `site.include` and `site.exclude`, which have the syntax of .gitignore.
import { matchesGlob } from 'node:path';

interface Pattern {
  globs: string[];
  isForFolders: boolean;
  isNegated: boolean;
}

/**
 * Returns a test of paths relative to the site's folder. As in Git, a pattern for a folder matches all files below it,
 * and the last pattern that matches counts. As in Wrangler, upper and lower case are the same.
 */
export function pathMatcher(patterns: string[]): (path: string) => boolean {
  const all = patterns.flatMap(parsed);
  const matches = (path: string, isFolder: boolean) => {
    const last = all.findLast(
      ({ globs, isForFolders }) =>
        (isFolder || !isForFolders) && globs.some((glob) => matchesGlob(path, glob)),
    );
    return last !== undefined && !last.isNegated;
  };
  /** Caches results for folders: `matchesGlob` parses its pattern in each call, and a folder may have many files. */
  const known = new Map<string, boolean>();
  return (path) => {
    const parts = comparable(path).split('/');
    return parts.some((_, at) => {
      const part = parts.slice(0, at + 1).join('/');
      if (at === parts.length - 1) return matches(part, false);
      const isMatched = known.get(part) ?? matches(part, true);
      known.set(part, isMatched);
      return isMatched;
    });
  };
}

function parsed(line: string): Pattern[] {
  const isNegated = line.startsWith('!');
  const text = (isNegated ? line.slice(1) : line).replace(/^\\(?=[#!])/, '').trimEnd();
  const path = text.replace(/^\/|\/$/g, '');
  if (path === '' || line.startsWith('#')) return [];
  const glob = comparable(path).replace(/[()]/g, '[$&]');
  const isAnchored = text.slice(0, -1).includes('/');
  return [{ globs: isAnchored ? [glob] : [glob, `**/${glob}`], isForFolders: text.endsWith('/'), isNegated }];
}

/**
 * Replaces braces and the leading dot of hidden names with private-use characters: Node's globs expand braces, and their
 * wildcards do not match the dot.
 */
function comparable(path: string): string {
  return path
    .toLowerCase()
    .replace(/(?<=^|\/)\.(?=[^./])/g, '\uE000')
    .replaceAll('{', '\uE001')
    .replaceAll('}', '\uE002');
}
