// Installs a project's packages, with the package manager its lock file names.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { BuildFailure } from '../../bundler/failure.ts';
import { findProgram } from './environment.ts';

/** How a package manager installs exactly what its lock file says, and how it runs a script. */
export interface PackageManager {
  name: 'npm' | 'pnpm' | 'yarn' | 'bun';
  /** Arguments that install. */
  install: string[];
}

// Development packages hold the build tools: NODE_ENV=production among the app's variables must not leave them out.
const NPM_FLAGS = ['--include=dev', '--no-audit', '--no-fund'];
/** By lock file; the first one that is there counts. */
const BY_LOCK_FILE: [string, PackageManager][] = [
  ['package-lock.json', { name: 'npm', install: ['ci', ...NPM_FLAGS] }],
  ['npm-shrinkwrap.json', { name: 'npm', install: ['ci', ...NPM_FLAGS] }],
  ['pnpm-lock.yaml', { name: 'pnpm', install: ['install', '--frozen-lockfile', '--prod=false'] }],
  ['yarn.lock', { name: 'yarn', install: ['install', '--frozen-lockfile'] }],
  ['bun.lock', { name: 'bun', install: ['install', '--frozen-lockfile'] }],
  ['bun.lockb', { name: 'bun', install: ['install', '--frozen-lockfile'] }],
];

/**
 * The package manager of the project in `directory`: npm when no lock file says otherwise.
 * @throws {BuildFailure} when it is not installed on this machine
 */
export function packageManager(directory: string): PackageManager {
  const [lockFile, manager] = BY_LOCK_FILE.find(([name]) => existsSync(join(directory, name))) ?? [
    null,
    { name: 'npm' as const, install: ['install', ...NPM_FLAGS] },
  ];
  if (findProgram(manager.name) === null) {
    const advice = manager.name === 'npm' ? '' : ', or commit a package-lock.json instead';
    throw new BuildFailure(
      `${lockFile ?? 'package.json'} asks for ${manager.name}, which is not installed on this machine: install it in /usr/local/bin${advice}`,
    );
  }
  return manager;
}
