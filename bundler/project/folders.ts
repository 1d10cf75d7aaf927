// A bounded look at the folders of a project: it may have very many.
import { type Dirent, readdirSync } from 'node:fs';
import { join } from 'node:path';

/** Folders below folders that are looked at, unless told otherwise. */
const DEPTH = 4;
/** Files and folders that are looked at. */
const ENTRIES = 50_000;

/** Hidden folders into which tools write sites. */
const OUTPUT = ['.output', '.vitepress', '.vuepress'];

/** The folders of a project, the upper ones first, by their paths from `root`, which is the first. Other hidden ones and packages are left out. */
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
    // A folder that the build has closed holds nothing for us.
    return [];
  }
}
