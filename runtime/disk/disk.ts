// The disk of the data directory: its free space, and errors of a full disk.
import { existsSync, type StatsFs, statfsSync, statSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { dirname } from 'node:path';

/** Whether an operation failed for lack of space: on the disk, or in the user's quota. */
export function isDiskFull(error: unknown): boolean {
  const { code } = (error ?? {}) as { code?: unknown };
  return code === 'ENOSPC' || code === 'EDQUOT' || code === 'SQLITE_FULL';
}

/** Returns the free MiB on the disk of `path`. With few free inodes, returns less. */
export function freeMegabytes(path: string): number {
  return megabytes(statfsSync(path));
}

/** Returns the size of the disk of `path`, in MiB. */
export function totalMegabytes(path: string): number {
  const { blocks, bsize } = statfsSync(path);
  return Math.floor((blocks * bsize) / 2 ** 20);
}

/** Returns the free MiB on the disk of `path`, without blocking the event loop. */
export async function readFreeMegabytes(path: string): Promise<number> {
  return megabytes(await statfs(path));
}

/** Whether an absolute path, which may not exist yet, is on the disk of `directory`. */
export function isOnDiskOf(path: string, directory: string): boolean {
  if (!existsSync(path)) return isOnDiskOf(dirname(path), directory);
  return statSync(path).dev === statSync(directory).dev;
}

/** Bytes of free space that a free inode stands for: as many as a usual ext4 disk has for each inode. */
const INODE_BYTES = 16_384;

/** Many small files can use up the inodes first. Some file systems, such as btrfs, have no fixed number, and report 0. */
function megabytes({ bavail, bsize, files, ffree }: StatsFs): number {
  const bytes = files === 0 ? bavail * bsize : Math.min(bavail * bsize, ffree * INODE_BYTES);
  return Math.floor(bytes / 2 ** 20);
}
