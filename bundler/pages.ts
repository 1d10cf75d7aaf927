// Folders that could be a site: those with an `index.html`. What a build wrote shows by looking before it and after it.
import { type Dirent, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { isInside } from './inside.ts';

/** Folders below folders that are looked at. */
const DEPTH = 4;
/** Files and folders that are looked at. */
const ENTRIES = 50_000;

/** By its path from the root, a text for each folder with an `index.html`, which changes with every writing of the page. */
export type PageFolders = Record<string, string>;

/**
 * The folders with an `index.html` in the project at `root` (a real path), the root itself aside.
 * @param linked folders of the root that are looked at also when they are links
 */
export function findPages(root: string, linked: string[]): PageFolders {
  const pages: PageFolders = {};
  const add = (path: string) => {
    const page = join(root, path, 'index.html');
    if (!isInside(root, page)) return;
    const stats = statSync(page, { bigint: true });
    if (stats.isFile()) pages[path] = `${stats.ino}:${stats.size}:${stats.mtimeNs}`;
  };
  let left = ENTRIES;
  let level = [''];
  for (let depth = 0; depth <= DEPTH && level.length > 0; depth++) {
    const next: string[] = [];
    for (const path of level) {
      const entries = list(join(root, path));
      left -= entries.length;
      if (left < 0) return pages;
      if (path !== '' && entries.some(({ name }) => name === 'index.html')) add(path);
      for (const entry of entries) {
        const isHidden = entry.name.startsWith('.') || entry.name === 'node_modules';
        if (entry.isDirectory() && !isHidden) next.push(join(path, entry.name));
      }
    }
    level = next;
  }
  for (const name of linked) add(name);
  return pages;
}

/** Names of the folders that were written since `before`, the outermost of each tree. */
export function writtenPages(before: PageFolders, after: PageFolders): string[] {
  const written = Object.keys(after).filter((path) => after[path] !== before[path]);
  return written.filter((path) => !written.some((other) => path.startsWith(`${other}/`))).sort();
}

function list(directory: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch {
    // A folder that the build has closed holds no site.
    return [];
  }
}
