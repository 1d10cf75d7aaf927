// Writes the files of a snapshot into an empty directory. Every byte is checked, and no file is used before all are
// complete.
import { mkdirSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { syncTree } from '../../../bundler/sync.ts';
import { Damaged } from '../errors.ts';
import type { FileEntry } from '../store/manifest.ts';
import { PackReader } from '../store/packs.ts';
import type { SnapshotStore } from '../store/snapshot-store.ts';

/**
 * Writes files below `directory`, and resolves when they are synced to the disk.
 * @param pathOf a file's path below the directory
 * @throws {Damaged} when a chunk is missing or damaged
 */
export async function extract(
  store: SnapshotStore,
  files: FileEntry[],
  directory: string,
  pathOf = ({ path }: FileEntry) => path,
): Promise<void> {
  const packs = new PackReader(store);
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  for (const file of files) {
    const path = join(directory, pathOf(file));
    if (file.path.endsWith('/')) mkdirSync(path, { recursive: true, mode: 0o700 });
    else {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      await write(packs, file, path);
    }
  }
  await syncTree(directory);
}

async function write(packs: PackReader, { path, size, mode, chunks }: FileEntry, to: string): Promise<void> {
  // Fails if the file exists: a snapshot must not have a path twice.
  const file = await open(to, 'wx', mode | 0o600);
  try {
    let written = 0;
    for (const chunk of chunks) {
      const content = await packs.read(chunk);
      await file.writeFile(content);
      written += content.length;
    }
    if (written !== size) throw new Damaged(`${path} has ${written} bytes and should have ${size}`);
  } finally {
    await file.close();
  }
}
