// Syncs a directory to the disk (fsync): a power cut must not damage a release that the database names as live.
import { open, readdir } from 'node:fs/promises';
import { join } from 'node:path';

/** Maximum concurrent file syncs. */
const CONCURRENCY = 16;

/** Resolves when `directory` and all files and folders in it are synced to the disk. */
export async function syncTree(directory: string): Promise<void> {
  const paths = await readdir(directory, { recursive: true });
  const queue = [directory, ...paths.map((path) => join(directory, path))];
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (let path = queue.pop(); path !== undefined; path = queue.pop()) await syncFile(path);
    }),
  );
}

/** Resolves when a file's data, or a folder's names, are synced to the disk. */
export async function syncFile(path: string): Promise<void> {
  const file = await open(path);
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}
