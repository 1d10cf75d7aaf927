// A directory made known under its name: whole and on disk, or not at all.
import type { FileHandle } from 'node:fs/promises';
import { open, readdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Files that are brought to disk side by side. */
const CONCURRENCY = 16;

/** Renames `beside` to `directory`, which is replaced. Every file is on disk before that, so it survives a power cut. */
export async function publish(beside: string, directory: string): Promise<void> {
  const paths = await readdir(beside, { recursive: true });
  const queue = [beside, ...paths.map((path) => join(beside, path))];
  await Promise.all(
    Array.from({ length: CONCURRENCY }, async () => {
      for (let path = queue.pop(); path !== undefined; path = queue.pop())
        await withFile(path, (file) => file.sync());
    }),
  );
  await rm(directory, { recursive: true, force: true });
  await rename(beside, directory);
  await withFile(dirname(directory), (file) => file.sync());
}

async function withFile(path: string, use: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path);
  try {
    await use(file);
  } finally {
    await file.close();
  }
}
