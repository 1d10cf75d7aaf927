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
  /** `null`: versions may differ with every build. */
  lockFile: string | null;
}

// Development packages hold the build tools: NODE_ENV=production among the app's variables must not leave them out.
const NPM_FLAGS = ['--include=dev', '--no-audit', '--no-fund'];
/** The first one whose lock file is there counts. */
const BY_LOCK_FILE: (PackageManager & { lockFile: string })[] = [
  { lockFile: 'package-lock.json', name: 'npm', install: ['ci', ...NPM_FLAGS] },
  { lockFile: 'npm-shrinkwrap.json', name: 'npm', install: ['ci', ...NPM_FLAGS] },
  { lockFile: 'pnpm-lock.yaml', name: 'pnpm', install: ['install', '--frozen-lockfile', '--prod=false'] },
  { lockFile: 'yarn.lock', name: 'yarn', install: ['install', '--frozen-lockfile'] },
  { lockFile: 'bun.lock', name: 'bun', install: ['install', '--frozen-lockfile'] },
  { lockFile: 'bun.lockb', name: 'bun', install: ['install', '--frozen-lockfile'] },
];
const WITHOUT_LOCK_FILE: PackageManager = { lockFile: null, name: 'npm', install: ['install', ...NPM_FLAGS] };

/**
 * The package manager of the project in `directory`: npm when no lock file says otherwise.
 * @throws {BuildFailure} when it is not installed on this machine
 */
export function packageManager(directory: string): PackageManager {
  const manager =
    BY_LOCK_FILE.find(({ lockFile }) => existsSync(join(directory, lockFile))) ?? WITHOUT_LOCK_FILE;
  if (findProgram(manager.name) === null) {
    const advice = manager.name === 'npm' ? '' : ', or commit a package-lock.json instead';
    throw new BuildFailure(
      `${manager.lockFile ?? 'package.json'} asks for ${manager.name}, which is not installed on this machine: install it in /usr/local/bin${advice}`,
    );
  }
  return manager;
}
