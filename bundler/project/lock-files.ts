// The lock files of package managers.
import { join } from 'node:path';
import { isThere } from './path-containment.ts';
import { readHead } from './regular-file.ts';

/** Bytes at the beginning of a lock file that contain its format. */
const HEAD_BYTES = 1000;

/** Lock files and their package managers. The first that exists counts. */
export const LOCK_FILES = {
  'package-lock.json': 'npm',
  'npm-shrinkwrap.json': 'npm',
  'pnpm-lock.yaml': 'pnpm',
  'yarn.lock': 'yarn',
  'bun.lock': 'bun',
  'bun.lockb': 'bun',
} as const;

/** A lock file that exists, and its first `HEAD_BYTES`. */
export interface LockFile {
  name: keyof typeof LOCK_FILES;
  head: string;
}

/**
 * Returns the lock files in a folder.
 * @param root real path of the repository
 * @throws {BuildFailure} when a lock file is not a file of the project
 */
export function findLockFiles(root: string, folder: string): LockFile[] {
  const names = (Object.keys(LOCK_FILES) as LockFile['name'][]).filter((name) =>
    isThere(root, join(folder, name)),
  );
  return names.map((name) => ({
    name,
    head: readHead(root, join(folder, name), HEAD_BYTES).toString('utf8'),
  }));
}
