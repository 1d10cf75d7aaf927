// The lock files of a project. `package-manager.ts` chooses the package manager by them.
import { join, relative } from 'node:path';
import { isThere } from './path-containment.ts';
import { readPackageJson } from './project.ts';
import { readHead, readJsonText } from './regular-file.ts';

/** Bytes at the beginning of a lock file that contain its format. */
const HEAD_BYTES = 1000;
/**
 * Maximum bytes of an npm lock file that is compared with package.json. Lock files of large projects have some megabytes.
 */
const NPM_LOCK_BYTES = 32 * 2 ** 20;

/** Lock files and their package managers, in order of preference. */
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
 * Returns the lock files in a folder, in order of preference. An npm lock file that lacks packages of package.json comes
 * after the lock files of other package managers: npm would refuse it. The project probably changed its package manager.
 * @param root real path of the repository
 * @throws {BuildFailure} when a lock file is not a file of the project
 */
export function findLockFiles(root: string, folder: string): LockFile[] {
  const names = (Object.keys(LOCK_FILES) as LockFile['name'][]).filter((name) =>
    isThere(root, join(folder, name)),
  );
  if (names.some((name) => LOCK_FILES[name] !== 'npm')) {
    const isOld = (name: LockFile['name']) => LOCK_FILES[name] === 'npm' && lacksPackages(root, folder, name);
    names.sort((a, b) => Number(isOld(a)) - Number(isOld(b)));
  }
  return names.map((name) => ({
    name,
    head: readHead(root, join(folder, name), HEAD_BYTES).toString('utf8'),
  }));
}

/** Whether a lock file of npm lacks a package that package.json names. */
function lacksPackages(root: string, folder: string, name: LockFile['name']): boolean {
  const manifest = readPackageJson(root, join(relative(root, folder), 'package.json'));
  let locked: Record<string, object | undefined>;
  try {
    locked = JSON.parse(readJsonText(root, join(folder, name), NPM_LOCK_BYTES));
  } catch {
    // The lock file is invalid or too large. If it is invalid or lacks packages, `npm ci` fails with an error that says so.
    return false;
  }
  // Older versions of npm wrote `dependencies` without `packages`.
  const packages = new Set(
    Object.keys(locked?.packages ?? {}).concat(Object.keys(locked?.dependencies ?? {}).map(inModules)),
  );
  return (manifest?.dependencies ?? []).some(([dependency]) => !packages.has(inModules(dependency)));
}

/** Returns the key of a package in `packages` of npm's lock file. */
function inModules(dependency: string): string {
  return `node_modules/${dependency}`;
}
