// Chooses a project's package manager, and builds its commands.
import { satisfies, validRange } from 'semver';
import { BuildFailure } from '../../../bundler/failure.ts';
import { LOCK_FILES } from '../../../bundler/project/lock-files.ts';
import type { Plan } from '../../../bundler/project/plan.ts';
import type { DevManager } from '../../../bundler/project/project.ts';
import { findProgram } from '../../processes/programs.ts';
import { cacheDirectories } from './cache.ts';

type Name = DevManager['name'];

/** A project's package manager, and its commands for the project. */
export interface PackageManager {
  name: Name;
  /** Exact version, or a range that package.json names; `null`: npm, as installed on this machine. */
  version: string | null;
  /** `null`: none, so versions may differ with every build. */
  lockFile: string | null;
  /** Other lock files of the project. They may be out of date. */
  unusedLockFiles: string[];
  /** The command that starts it; the package manager's arguments follow. */
  call: string[];
  /** The command that installs the project's packages, in the versions of the lock file if there is one. */
  install: string[];
  /** The command that runs the script `build`. */
  build: string[];
  /** The command that adds packages for one build; their names follow. */
  add: string[];
}

/** pnpm's version by the format of the lock file, when package.json names no version. */
const PNPM_BY_FORMAT: Record<string, string> = { 5: '7.33.7', 6: '8.15.9', 9: '10.34.8' };
/** The programs of the package managers that come from npm's registry. */
const PROGRAMS = { pnpm: ['pnpm', 'pnpx'], yarn: ['yarn'], bun: ['bun', 'bunx'] };
const YARN_CLASSIC = '1.22.22';
const YARN_MODERN = '4.18.1';
const BUN = '1.4.5';
/** Maximum characters of a version range. Parsing a longer one takes too long. */
const RANGE_LENGTH = 256;
/**
 * Fetches the program `$1` of the package `$0`, and runs it with the other arguments. npm starts outside the project: there
 * it would refuse another package manager, or another Node, in `devEngines`. It still reads the project's registry. The
 * program's directory comes first in PATH, for scripts that call it.
 */
const FETCH_AND_RUN = `program=$(
  cd / && npm_config_globalconfig="$OLDPWD/.npmrc" npm exec --yes --package="$0" -c "command -v $1"
) && shift && unset npm_execpath && PATH=\${program%/*}:$PATH exec "$program" "$@"`;

/**
 * Returns the package manager of a planned project: the one that package.json's `packageManager` names, else that of
 * `devEngines`, else the first lock file's, else npm. npm is this machine's; the others come from npm's registry, in the
 * version that `packageManager` names or the lock file needs, else the newest one in the range that package.json names.
 * @param cache the app's cache directory
 * @throws {BuildFailure} when it is npm and not installed, the name is invalid, or no version is known for the lock file
 */
export function packageManager(
  plan: Pick<Plan, 'packageManager' | 'devManager' | 'pnpmRange' | 'lockFiles'>,
  cache: string,
): PackageManager {
  const exact = namedManager(plan.packageManager);
  const named = exact ?? plan.devManager;
  const used = plan.lockFiles.find((file) => named === null || LOCK_FILES[file.name] === named.name);
  const lockFile = used?.name ?? null;
  const name = named?.name ?? (used === undefined ? 'npm' : LOCK_FILES[used.name]);
  const unusedLockFiles = named === null ? plan.lockFiles.slice(1).map((file) => file.name) : [];
  if (name === 'npm') {
    if (findProgram(name) === null) throw new BuildFailure('npm is not installed on this machine');
    const build = ['npm', 'run', 'build'];
    return {
      name,
      version: null,
      lockFile,
      unusedLockFiles,
      call: ['npm'],
      install: npmInstall(lockFile),
      build,
      // Otherwise npm would refuse packages whose peer dependencies conflict with the project's.
      add: ['npm', 'install', '--no-save', '--legacy-peer-deps'],
    };
  }
  const range = plan.devManager?.range ?? (name === 'pnpm' ? plan.pnpmRange : null);
  const version = exact?.version ?? neededVersion(name, used?.head ?? '', range);
  const commands = fetchedCommands(name, version, lockFile, cache);
  return { name, version, lockFile, unusedLockFiles, ...commands };
}

/**
 * Returns the commands that start the programs of all package managers but npm, by the programs' names. Scripts may call any
 * of them, as in Cloudflare's builds.
 * @param manager the project's, which has the project's version; `null`: none
 * @param cache the app's cache directory
 */
export function managerPrograms(manager: PackageManager | null, cache: string): Record<string, string[]> {
  const calls: Record<string, string[]> = {};
  for (const name of ['pnpm', 'yarn', 'bun'] as const) {
    const { call } =
      manager?.name === name ? manager : fetchedCommands(name, neededVersion(name, '', null), null, cache);
    for (const program of PROGRAMS[name])
      calls[program] = call.map((word) => (word === name ? program : word));
  }
  return calls;
}

/** Parses `pnpm@10.1.0+sha512.…`. `version` is null for npm, which is this machine's, so any text may follow `npm@`. */
function namedManager(text: string | null): { name: Name; version: string | null } | null {
  if (text === null) return null;
  if (text.startsWith('npm@')) return { name: 'npm', version: null };
  const [, name, version] = /^(pnpm|yarn|bun)@(\d+\.\d+\.\d+(?:-[\w.]+)?)(?:\+.*)?$/.exec(text) ?? [];
  if (name === undefined) {
    throw new BuildFailure(
      `package.json: "packageManager" must be npm, pnpm, yarn or bun with an exact version, such as "pnpm@10.1.0", not "${text}"`,
    );
  }
  return { name: name as Name, version: version! };
}

function npmInstall(lockFile: string | null): string[] {
  // Development packages hold the build tools: install them even if the app sets NODE_ENV=production.
  const flags = ['--include=dev', '--no-audit', '--no-fund'];
  // Packages in a lock file never change, so the cache needs no revalidation.
  return lockFile ? ['npm', 'ci', '--prefer-offline', ...flags] : ['npm', 'install', ...flags];
}

function fetchedCommands(
  name: Exclude<Name, 'npm'>,
  version: string,
  lockFile: string | null,
  cache: string,
): Pick<PackageManager, 'call' | 'install' | 'build' | 'add'> {
  const isClassic = name === 'yarn' && /^\D*1\b/.test(version);
  const source = name === 'yarn' && !isClassic ? '@yarnpkg/cli-dist' : name;
  const call = ['sh', '-c', FETCH_AND_RUN, `${source}@${version}`, name];
  // Otherwise it refuses a project or package whose `engines` excludes this Node. Later versions refuse this variable.
  if (isClassic) call.unshift('env', 'YARN_IGNORE_ENGINES=true');
  // Every pnpm command accepts options in this form. With another store, pnpm would refuse the installed packages.
  if (name === 'pnpm')
    call.push(`--config.store-dir=${cacheDirectories(cache).pnpm}`, '--config.engine-strict=false');
  const build = [...call, 'run', 'build'];
  const add = [...call, 'add', '--dev'];
  const frozen = lockFile === null ? '--no-frozen-lockfile' : '--frozen-lockfile';
  if (name === 'bun')
    return { call, install: [...call, 'install', ...(lockFile ? ['--frozen-lockfile'] : [])], build, add };
  if (name === 'pnpm')
    return {
      call,
      install: [...call, 'install', frozen, '--prod=false'],
      build,
      add: [...call, 'add', '--save-dev', '--ignore-workspace-root-check'],
    };
  if (isClassic) {
    const flags = ['--production=false', '--non-interactive', ...(lockFile ? ['--frozen-lockfile'] : [])];
    return { call, install: [...call, 'install', ...flags], build, add };
  }
  return { call, install: [...call, 'install', lockFile ? '--immutable' : '--no-immutable'], build, add };
}

/**
 * Returns the version that reads the lock file; without a lock file, the usual version.
 * @param range returned when it lacks that version: npm then chooses the newest version in it
 * @throws {BuildFailure} for a range that is too long or invalid; without a range, when no version is known for the lock file
 */
function neededVersion(name: Exclude<Name, 'npm'>, lockFileHead: string, range: string | null): string {
  if (range !== null && range.length > RANGE_LENGTH)
    throw new BuildFailure(
      `package.json: the version of ${name} in "engines" or "devEngines" has ${range.length} characters; at most ${RANGE_LENGTH} are allowed`,
    );
  const format = /^lockfileVersion: '?(\d+)/m.exec(lockFileHead)?.[1] ?? '9';
  const yarn = lockFileHead.includes('__metadata:') ? YARN_MODERN : YARN_CLASSIC;
  const version = { bun: BUN, yarn, pnpm: PNPM_BY_FORMAT[format] }[name];
  if (version !== undefined && (range === null || satisfies(version, range))) return version;
  if (range !== null && validRange(range) !== null) return range;
  if (range !== null)
    throw new BuildFailure(
      `package.json: the version of ${name} in "engines" or "devEngines" must be a range such as "^10.1.0", not "${range}"`,
    );
  throw new BuildFailure(
    `pnpm-lock.yaml has format ${format}: name the version of pnpm as "packageManager" in package.json, such as "pnpm@10.1.0"`,
  );
}
