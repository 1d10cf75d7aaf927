// Folders that could be a site: those with an `index.html`. What a build wrote shows by looking before it and after it.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { foldersOf } from './folders.ts';
import { isInside } from './path-containment.ts';

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
  for (const { path, names } of foldersOf(root)) if (path !== '' && names.includes('index.html')) add(path);
  for (const name of linked) add(name);
  return pages;
}

/** Names of the folders that were written since `before`, the outermost of each tree. */
export function writtenPages(before: PageFolders, after: PageFolders): string[] {
  const written = Object.keys(after).filter((path) => after[path] !== before[path]);
  return written.filter((path) => !written.some((other) => path.startsWith(`${other}/`))).sort();
}
