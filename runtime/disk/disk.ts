// The disk that the data directory lies on: what is free of it, and how to tell that it is full.
import { statfsSync } from 'node:fs';
import { statfs } from 'node:fs/promises';

/** Whether an operation failed because there is no room: on the disk, or in the quota of its user. */
export function isDiskFull(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'SQLITE_FULL';
}

/** MiB that are free on the disk of `path`, now. */
export function freeMegabytes(path: string): number {
  return megabytes(statfsSync(path));
}

/** The same, for a disk that may take its time to say so. */
export async function readFreeMegabytes(path: string): Promise<number> {
  return megabytes(await statfs(path));
}

function megabytes({ bavail, bsize }: { bavail: number; bsize: number }): number {
  return Math.floor((bavail * bsize) / 2 ** 20);
}
