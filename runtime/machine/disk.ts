// The disk that the data directory lies on: what is free of it, and what must stay so.
import { statfsSync } from 'node:fs';

/** MiB that pushes and builds leave free for apps and for Cellar itself. */
export const RESERVED_MB = 256;

/** Whether an operation failed because there is no room: on the disk, or in the quota of its user. */
export function isDiskFull(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'SQLITE_FULL';
}

/** MiB that are free on the disk of `path`. */
export function freeMegabytes(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return Math.floor((bavail * bsize) / 2 ** 20);
}
