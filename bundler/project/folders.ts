// Walks the folders of a project, with limits, because a project may have very many.
import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Default maximum depth. */
const DEPTH = 4;
/** Maximum files and folders. */
const ENTRIES = 50_000;

/** Hidden folders into which tools write sites. */
const OUTPUT = ['.output', '.vitepress', '.vuepress'];

/**
 * Yields `root` and the folders below it, breadth-first, with paths relative to `root` and the names in each folder. Skips
 * links, `node_modules`, and hidden folders except those of `OUTPUT`. Stops after `ENTRIES` files and folders.
 */
export function* foldersOf(root: string, depths = DEPTH): Generator<{ path: string; names: string[] }> {
  let left = ENTRIES;
  let level = [''];
  for (let depth = 0; depth <= depths && level.length > 0; depth++) {
    const next: string[] = [];
    for (const path of level) {
      const entries = list(join(root, path));
      left -= entries.length;
      if (left < 0) return;
      yield { path, names: entries.map(({ name }) => name) };
      for (const entry of entries) {
        const { name } = entry;
        const isHidden = (name.startsWith('.') && !OUTPUT.includes(name)) || name === 'node_modules';
        if (entry.isDirectory() && !isHidden) next.push(join(path, name));
      }
    }
    level = next;
  }
}

function list(directory: string): Dirent[] {
  try {
    return readdirSync(directory, { withFileTypes: true });
  } catch {
    // A build may have made a folder unreadable.
    return [];
  }
}
