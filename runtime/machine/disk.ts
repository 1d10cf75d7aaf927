// The disk that the data directory lies on: what is free of it, and what must stay so.
import { statfsSync } from 'node:fs';

/** MiB that pushes and builds leave free for apps and for Cellar itself. */
export const RESERVED_MB = 256;

/** MiB that are free on the disk of `path`. */
export function freeMegabytes(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return Math.floor((bavail * bsize) / 2 ** 20);
}
