// Brings a directory to the disk: what the database will call live must survive a power cut.
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Files that are brought to disk side by side. */
const CONCURRENCY = 16;

/** Resolves when every file and folder in `directory`, and that itself, is on the disk. */
export async function syncTree(directory: string): Promise<void> {
  const paths = await readdir(directory, { recursive: true });
  const queue = [directory, ...paths.map((path) => join(directory, path))];
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (let path = queue.pop(); path !== undefined; path = queue.pop()) await syncFile(path);
    }),
  );
}

/** Resolves when a file is on the disk, or the names in a folder are. */
export async function syncFile(path: string): Promise<void> {
  const file = await open(path);
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
