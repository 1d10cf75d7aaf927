// What a worktree needs before it can be bundled, known before anything of it has run.
import { realpathSync } from 'node:fs';
import { findProject, nothingDeployable, readPackageJson } from './project.ts';
import { readWranglerConfig } from './wrangler-config.ts';

/** The command that makes a project ready for bundling. `cwd` starts at the project's root. */
export type BuildCommand = { command: string; cwd: string };

/**
 * Looks at a fresh worktree.
 * @param environment the environment of its Wrangler configuration to deploy; `null`: the top level
 * @returns Wrangler's `build.command`, or `null` when there is none
 * @throws {BuildFailure} when its configuration cannot be used, or nothing in it can become deployable
 */
export async function planBuild(worktree: string, environment: string | null): Promise<BuildCommand | null> {
  const root = realpathSync(worktree);
  const project = findProject(root);
  if (project?.kind === 'wrangler') {
    const { command, cwd } = (await readWranglerConfig(root, project.config, null, environment)).config.build;
    return command ? { command, cwd: cwd ?? '.' } : null;
  }
  if (project === null && readPackageJson(root)?.scripts.build === undefined) throw nothingDeployable(root);
  return null;
}
