// Plans the build of a worktree: which packages to install and which commands to run. No command of the worktree has run
// yet.
import { realpathSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import type { BuildSettings } from '../../handlers/contract/host/host-calls.ts';
import { type NamedOutside, preflight } from '../configuration/preflight.ts';
import { readConfig, withPages } from '../configuration/read-config.ts';
import { redirectedConfig } from '../configuration/redirect.ts';
import type { ReadConfig } from '../configuration/wrangler-config.ts';
import { deployFolder } from '../deploy-script/deploy-folder.ts';
import { type DeployScript, deployScript } from '../deploy-script/deploy-script.ts';
import { type Adapter, adapterNote } from '../frameworks/adapter.ts';
import { nextAdapter } from '../frameworks/plain-next.ts';
import { serverAdapter } from '../frameworks/server-rendered.ts';
import { entryPath } from '../modules/entry.ts';
import { type BuildCommand, buildCommands } from './build-command.ts';
import { hasFunctions } from './cloudflare-pages.ts';
import { whyInstallAnew } from './install-inputs.ts';
import { findLockFiles, type LockFile } from './lock-files.ts';
import type { PageFolders } from './pages.ts';
import { insidePath, isThere, packageOf } from './path-containment.ts';
import { type Place, placeOf } from './place.ts';
import {
  type DevManager,
  findProject,
  hasConfig,
  misnamedConfiguration,
  nothingDeployable,
  packageJsonOf,
  siteFolders,
} from './project.ts';
import { installFolder, namedFolder, onlyProject } from './workspace.ts';

/** Scripts that run before a project is bundled, and may write its files. */
const WRITING_SCRIPTS = ['build', 'preinstall', 'install', 'postinstall', 'prepare'];

/** The commands to run in a worktree, and facts about the worktree before the first command. */
export interface Plan {
  /** The project's folder, relative to the worktree; empty: the worktree. */
  folder: string;
  /** Shell line that the root's deploy script runs in `folder`, in place of the folder's own deploy script; `null`: none. */
  deployLine: string | null;
  /** The folder where the project's packages are installed, relative to the worktree; empty: the worktree. */
  installFolder: string;
  /** The commands that run before the project is bundled, in order. */
  build: BuildCommand[];
  /** The framework's adapter that a deploy adds for the build; `null`: none. */
  adapter: Adapter | null;
  /** Lines for the deploy's log. */
  notes: string[];
  hasDependencies: boolean;
  /**
   * Whether the deploy may need no packages: the project has only `devDependencies`, or no package.json of its own, and runs
   * no command. Then Cellar first tries to bundle without packages.
   */
  mayNeedNoPackages: boolean;
  /** As package.json names it, such as `pnpm@10.1.0`. */
  packageManager: string | null;
  /** As package.json names it in `devEngines`; `null`: it does not. */
  devManager: DevManager | null;
  /** See `PackageJson.pnpmRange`. */
  pnpmRange: string | null;
  lockFiles: LockFile[];
  /** Why the next build cannot reuse this install; `null` when it can. */
  installAnew: string | null;
  hasConfig: boolean;
  /** Whether the project is a Cloudflare Pages project. */
  isPages: boolean;
  /**
   * The configuration's references to other apps; `null` without a configuration, or when a build writes the one to deploy.
   */
  outside: NamedOutside | null;
  /** The folders with an `index.html` before the build; `null` with a Wrangler configuration, or without a build command. */
  pages: PageFolders | null;
}

export interface PlanOptions {
  worktree: string;
  settings: BuildSettings;
  /** The environment of its Wrangler configuration to deploy. `null`: `readConfig` chooses. */
  environment: string | null;
  /** Paths of all package.json files in the worktree. */
  manifests: string[];
}

/** A worktree after its build, with values from its plan. */
export interface BuiltProject {
  worktree: string;
  settings: BuildSettings;
  /** The Wrangler environment to deploy. `null`: `readConfig` chooses. */
  environment: string | null;
  /** See `Plan.deployLine`. */
  deployLine: string | null;
  /** The folders with an `index.html` before the build; `null` when the build could not write a site. */
  before: PageFolders | null;
}

/**
 * Plans the build of a fresh worktree.
 * @throws {BuildFailure} when its configuration cannot be used, or nothing in it can become deployable
 */
export async function planBuild({ worktree, settings, environment, manifests }: PlanOptions): Promise<Plan> {
  const { output_directory: output } = settings;
  const { place, why, rootBuild } = findPlace(realpathSync(worktree), settings);
  const manifest = packageJsonOf(place);
  const project = findProject(place, null, output, settings.build_command !== null);
  const read = project?.kind === 'wrangler' ? await readConfig(place, project, environment, false) : null;
  const below = read !== null && manifest === null ? packageBelow(place, read) : null;
  const installed = below ?? installFolder(place);
  const isOwn = installed === place.folder;
  const hasPackage = isThere(place.root, resolve(place.folder, 'package.json'));
  const above = isOwn ? null : packageJsonOf({ ...place, folder: installed });
  const config = read?.config ?? null;
  const deploy = deployScript(manifest?.scripts ?? {});
  const isDetected =
    project?.kind !== 'wrangler' &&
    deploy === null &&
    settings.build_command === null &&
    output === null &&
    !hasFunctions(place);
  const adapter =
    isDetected && manifest !== null ? (nextAdapter(place, manifest) ?? serverAdapter(place, manifest)) : null;
  const sources = { root: place.root, settings, config, deploy, manifest, above, installed };
  const build = buildCommands({ ...sources, addsOpenNext: adapter?.framework === 'Next.js' });
  if (
    below !== null &&
    build.length === 0 &&
    above?.scripts.build !== undefined &&
    !isWritten(place.root, read!)
  )
    build.push({ kind: 'command', command: 'npm run build', cwd: relative(place.folder, below) });
  if (rootBuild !== null && read !== null && needsRoot(place, read, build))
    build.unshift({ kind: 'command', command: rootBuild, cwd: relative(place.folder, place.root) });
  if (project === null && build.length === 0) throw nothingDeployable(place, output);
  const isPages =
    read === null
      ? project?.kind !== 'worker' && (hasFunctions(place) || (deploy?.call.pages ?? null) !== null)
      : read.config.pages_build_output_dir !== undefined;
  const functions = isPages && hasFunctions(place);
  let outside: NamedOutside | null = null;
  if (read !== null) {
    if (output !== null && !isPages) throw misnamedConfiguration(read.file);
    const scripts = Object.keys(manifest?.scripts ?? {});
    const isRedirected = redirectedConfig(place, false) !== null;
    const isWhole =
      build.length === 0 &&
      !functions &&
      settings.install_command === null &&
      !scripts.some((name) => WRITING_SCRIPTS.includes(name)) &&
      !isRedirected;
    const config = isPages && isWhole ? withPages(place, read, output) : read;
    const named = preflight(place.root, config, isWhole);
    if (!isRedirected) outside = named;
  }
  return {
    folder: relative(place.root, place.folder),
    deployLine: place.deployLine ?? null,
    installFolder: relative(place.root, installed),
    build: read !== null && isDeployable(place.root, read) ? build.map(allowFailure) : build,
    adapter,
    notes: [
      ...(why === null ? [] : [why]),
      ...(below === null
        ? []
        : [
            `${relative(place.root, below)} is the folder of the app's package: ${read!.file} names files in it`,
          ]),
      ...(deploy !== null && deploy.notRun.length > 0 ? [notRun(deploy)] : []),
      ...(adapter === null ? [] : [adapterNote(adapter)]),
    ],
    hasDependencies: [manifest, above].some((each) => each?.hasDependencies),
    mayNeedNoPackages:
      (hasPackage ? manifest?.isForDevelopment === true && isOwn : !isOwn && below === null) &&
      build.length === 0 &&
      [settings.install_command, settings.release_command ?? null].every((command) => command === null) &&
      !WRITING_SCRIPTS.some((name) => name in (manifest?.scripts ?? {})) &&
      !functions,
    packageManager: (above ?? manifest)?.packageManager ?? null,
    devManager: (above ?? manifest)?.devManager ?? null,
    pnpmRange: (above ?? manifest)?.pnpmRange ?? null,
    lockFiles: findLockFiles(place.root, installed),
    installAnew: whyInstallAnew(place.root, manifests),
    hasConfig: project?.kind === 'wrangler',
    isPages,
    outside,
    pages: project?.kind !== 'wrangler' && build.length > 0 ? siteFolders(place) : null,
  };
}

/**
 * Returns whether functions/ of a built worktree must be compiled to the app's Worker. Must be called after the build, because
 * the build may write or remove functions/.
 * @throws {BuildFailure} when the project or its configuration cannot be read
 */
export async function findFunctions(options: BuiltProject): Promise<boolean> {
  const { worktree, settings, environment, deployLine, before } = options;
  const place = { ...placeOf(realpathSync(worktree), settings.root_directory), deployLine };
  if (!hasFunctions(place)) return false;
  const project = findProject(place, before, settings.output_directory);
  if (project?.kind !== 'wrangler') return project?.kind === 'site';
  const { config } = await readConfig(place, project, environment, true);
  return config.pages_build_output_dir !== undefined;
}

/**
 * Returns the nearest folder with a package.json above the Worker or the assets of a configuration; `null` without one.
 * Searches only below the project's folder. Called for a project without a package.json beside its configuration.
 */
function packageBelow({ root, folder }: Place, { config, base }: ReadConfig): string | null {
  for (const named of [config.main, config.assets?.directory]) {
    const found = named === undefined ? null : packageOf(root, folder, resolve(base, named));
    if (found !== null) return found;
  }
  return null;
}

/** Returns whether a Worker can be bundled without a build: its configuration has no build command, and its files exist. */
function isDeployable(root: string, read: ReadConfig): boolean {
  return read.config.main !== undefined && !read.config.build.command && isWritten(root, read);
}

/** Returns whether the files and folders that a configuration names exist. */
function isWritten(root: string, { config: { main, assets, site }, base }: ReadConfig): boolean {
  try {
    if (main !== undefined) entryPath(root, base, main, 'main');
    if (assets?.directory !== undefined) insidePath(root, base, assets.directory, 'assets.directory');
    if (site !== undefined) insidePath(root, base, site.bucket, 'site.bucket');
    return true;
  } catch {
    return false;
  }
}

/** Returns whether what a configuration names is missing, and only the build of the repository's root may write it. */
function needsRoot({ root, folder }: Place, read: ReadConfig, build: BuildCommand[]): boolean {
  const { main, assets, site } = read.config;
  const named = [main, assets?.directory, site?.bucket].filter((path) => path !== undefined);
  const isOutside = named.some((path) => relative(folder, resolve(read.base, path)).startsWith('..'));
  return (build.length === 0 || isOutside) && !isWritten(root, read);
}

function allowFailure(build: BuildCommand): BuildCommand {
  return build.kind === 'script' ? { ...build, mayFail: true } : build;
}

/** Returns a log line about commands of the deploy script that the build leaves out. */
function notRun({ call, notRun }: DeployScript): string {
  return `"${call.script}" of package.json: not run, because they come after Wrangler, deploy another Worker or are for an account of Cloudflare: ${notRun.join(', ')}`;
}

/**
 * Finds the project's folder: the folder in the settings, else the folder that the deploy script names. Without either,
 * the root if it can be deployed, else the only folder with a configuration, else the root. `why` is a line for the
 * deploy's log, unless the settings name the folder or it is the root. `rootBuild` is the shell line that builds the
 * root, if the folder was found and no setting replaces the build.
 */
function findPlace(
  root: string,
  settings: BuildSettings,
): { place: Place; why: string | null; rootBuild: string | null } {
  const place = placeOf(root, settings.root_directory);
  const { root_directory, output_directory: output, build_command } = settings;
  const asNamed = { place, why: null, rootBuild: null };
  if (root_directory !== null || output !== null) return asNamed;
  const scripts = packageJsonOf(place)?.scripts ?? {};
  const named = deployFolder(scripts);
  const folder = named === null || hasConfig(place) ? null : namedFolder(root, named);
  if (named !== null && folder !== null) {
    const why = `${folder} is deployed: the script "${named.script}" of package.json names it`;
    const rootBuild = build_command === null ? named.before : null;
    return { place: { ...placeOf(root, folder), deployLine: named.line }, why, rootBuild };
  }
  if (findProject(place, null, output, build_command !== null) !== null) return asNamed;
  const only = onlyProject(root, build_command !== null || scripts.build !== undefined);
  if (only === null) return asNamed;
  return {
    place: placeOf(root, only),
    why: `${only} is the app: no other folder has a Wrangler configuration`,
    rootBuild: build_command === null && scripts.build !== undefined ? 'npm run build' : null,
  };
}
