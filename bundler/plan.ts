// What a worktree needs before it can be bundled, known before anything of it has run.
import { realpathSync } from 'node:fs';
import { refuseImpossible } from './impossible.ts';
import { whyInstallAnew } from './install-inputs.ts';
import { findLockFiles, type LockFile } from './lock-files.ts';
import type { PageFolders } from './pages.ts';
import { findProject, nothingDeployable, readPackageJson, siteFolders } from './project.ts';
import { redirectedConfig } from './redirect.ts';
import { readWranglerConfig } from './wrangler-config.ts';

/** Scripts that run before a project is bundled, and may write files of it. */
const WRITING_SCRIPTS = ['build', 'preinstall', 'install', 'postinstall', 'prepare'];

/** The command that makes a project ready for bundling. `cwd` starts at the project's root. */
export type BuildCommand = { command: string; cwd: string };

/** What has to run in a worktree, as data. */
export interface Plan {
  /** Wrangler's `build.command`, or `null` when there is none. */
  command: BuildCommand | null;
  hasDependencies: boolean;
  /** Whether package.json has a script `build`. */
  hasBuildScript: boolean;
  /** As package.json names it, such as `pnpm@10.1.0`. */
  packageManager: string | null;
  lockFiles: LockFile[];
  /** Why the next build cannot use what an install makes here; `null` when it can. */
  installAnew: string | null;
  /** The sites that are there before the build. */
  pages: PageFolders;
}

/**
 * Looks at a fresh worktree.
 * @param environment the environment of its Wrangler configuration to deploy; `null`: the top level
 * @param manifests paths of all its package.json files
 * @throws {BuildFailure} when its configuration cannot be used, or nothing in it can become deployable
 */
export async function planBuild(
  worktree: string,
  environment: string | null,
  manifests: string[],
): Promise<Plan> {
  const root = realpathSync(worktree);
  const manifest = readPackageJson(root);
  const hasBuildScript = manifest?.scripts.build !== undefined;
  const project = findProject(root, null);
  let command: BuildCommand | null = null;
  if (project?.kind === 'wrangler') {
    const read = await readWranglerConfig(root, project.config, null, environment);
    const { build } = read.config;
    if (build.command) command = { command: build.command, cwd: build.cwd ?? '.' };
    const scripts = Object.keys(manifest?.scripts ?? {});
    const isWhole =
      !build.command &&
      !scripts.some((name) => WRITING_SCRIPTS.includes(name)) &&
      redirectedConfig(root) === null;
    refuseImpossible(root, read, isWhole);
  } else if (project === null && !hasBuildScript) throw nothingDeployable(root);
  return {
    command,
    hasDependencies: manifest?.hasDependencies ?? false,
    hasBuildScript,
    packageManager: manifest?.packageManager ?? null,
    lockFiles: findLockFiles(root),
    installAnew: whyInstallAnew(root, manifests),
    pages: project?.kind !== 'wrangler' && hasBuildScript ? siteFolders(root) : {},
  };
}
