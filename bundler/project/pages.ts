// Finds folders with an `index.html`: each could be a site. A comparison before and after a build shows what the build
// wrote.
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { foldersOf } from './folders.ts';
import { isInside } from './path-containment.ts';

/** A fingerprint of each folder's `index.html`, by the folder's path from the project's folder. Each write changes it. */
export type PageFolders = Record<string, string>;

/**
 * Returns the folders with an `index.html` in the project at `root` (a real path), without the root itself.
 * @param linked folders of the root to check even if they are links
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

/** Returns the folders whose `index.html` was written since `before`, without folders below another such folder. */
export function writtenPages(before: PageFolders, after: PageFolders): string[] {
  const written = Object.keys(after).filter((path) => after[path] !== before[path]);
  return written.filter((path) => !written.some((other) => path.startsWith(`${other}/`))).sort();
}
