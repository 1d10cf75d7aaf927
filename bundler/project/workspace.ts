// Finds the folder in which a project's packages are installed: the project's own, or its workspace's.
import { basename, dirname, join, matchesGlob, normalize, relative } from 'node:path';
import { parse } from 'yaml';
import * as z from 'zod';
import type { DeployFolder } from '../deploy-script/deploy-folder.ts';
import { BuildFailure } from '../failure.ts';
import { CONFIG_BYTES } from '../limits.ts';
import { foldersOf } from './folders.ts';
import { findLockFiles } from './lock-files.ts';
import { isThere } from './path-containment.ts';
import type { Place } from './place.ts';
import { CONFIG_FILES, readPackageJson, unnamedFolder, wranglerFolders } from './project.ts';
import { readProjectFile } from './regular-file.ts';

/** A folder with one of these names was written by people, not by a build. */
const PROJECT_FILES = ['package.json', 'functions', '_worker.js'];

/** The part of pnpm-workspace.yaml that names packages. It may be missing, because the file also has settings. */
const PNPM_WORKSPACE = z.nullable(z.object({ packages: z.nullish(z.array(z.string())) }));

/**
 * Returns the real path of the folder in which to install packages: the project's folder if it has a lock file, else
 * the workspace that has the project as a member, else the project's folder. For a folder without a package.json, the
 * nearest folder above with one counts as the project's.
 */
export function installFolder({ root, folder }: Place): string {
  if (findLockFiles(root, folder).length > 0) return folder;
  for (let at = folder; at !== root; ) {
    at = dirname(at);
    if (hasMember(workspaceGlobs(root, at), relative(at, folder))) return at;
  }
  const nearest = nearestPackage(root, folder);
  return nearest === folder ? folder : installFolder({ root, folder: nearest });
}

/** Returns the nearest folder with a package.json, from `folder` up to `root`; `folder` itself when none has one. */
function nearestPackage(root: string, folder: string): string {
  for (let at = folder; ; at = dirname(at)) {
    if (isThere(root, join(at, 'package.json'))) return at;
    if (at === root) return folder;
  }
}

/**
 * Finds the only project of a repository whose root cannot be deployed.
 * @param builds whether the root has a build: then the project must be a package of the root's workspace
 * @returns the project's folder, relative to the root; `null` without a project
 * @throws {BuildFailure} when there are several
 */
export function onlyProject(root: string, builds: boolean): string | null {
  const globs = workspaceGlobs(root, root);
  const found = wranglerFolders(root).filter((path) => !builds || hasMember(globs, path));
  if (found.length > 1) throw unnamedFolder(found);
  return found[0] ?? null;
}

/**
 * Returns the folder that a script names by path, or by the name of its package or Nx project.
 * @returns `null` for a folder that the script enters and a build may write: it is missing, or commands come before and it
 * has neither a configuration nor one of `PROJECT_FILES`
 * @throws {BuildFailure} when no folder or several folders have the name
 */
export function namedFolder(root: string, { script, named, isEntered, before }: DeployFolder): string | null {
  const path = normalize(named);
  const isWritten =
    isEntered &&
    before !== null &&
    !path.startsWith('..') &&
    ![...PROJECT_FILES, ...CONFIG_FILES].some((name) => isThere(root, join(root, path, name)));
  if (!path.startsWith('..') && !isWritten && isThere(root, join(root, path))) return path;
  if (isEntered) return null;
  const found: string[] = [];
  for (const { path, names } of foldersOf(root)) {
    const name = names.includes('package.json')
      ? readPackageJson(root, join(path, 'package.json'))?.name
      : null;
    const isProject = names.includes('project.json') && basename(path) === named;
    if (path !== '' && (name === named || isProject)) found.push(path);
  }
  if (found.length === 1) return found[0]!;
  const which = found.length === 0 ? 'no folder or package is' : `${found.join(', ')} are`;
  throw new BuildFailure(
    `"${script}" of package.json deploys ${named}, and ${which} called that: say which folder is the app, with \`cellar builds set --root-directory\` or in the app's settings`,
  );
}

function hasMember(globs: string[], path: string): boolean {
  const matches = (glob: string) => matchesGlob(path, glob.replace(/^\.?\//, '').replace(/\/$/, ''));
  const [taken, left] = [
    globs.filter((glob) => !glob.startsWith('!')),
    globs.filter((glob) => glob.startsWith('!')),
  ];
  return taken.some(matches) && !left.some((glob) => matches(glob.slice(1)));
}

/**
 * Returns the globs of the packages of a workspace in the folder `at`; an empty list without a workspace.
 * @throws {BuildFailure} for a file that pnpm could not read
 */
function workspaceGlobs(root: string, at: string): string[] {
  const own = readPackageJson(root, join(relative(root, at), 'package.json'))?.workspaces ?? [];
  const path = join(at, 'pnpm-workspace.yaml');
  if (!isThere(root, path)) return own;
  const text = readProjectFile(root, path, CONFIG_BYTES).toString('utf8');
  const name = relative(root, path);
  let content: unknown;
  try {
    content = parse(text);
  } catch (error) {
    throw new BuildFailure(`${name} is not YAML: ${(error as Error).message}`);
  }
  const { success, data } = PNPM_WORKSPACE.safeParse(content);
  if (!success) throw new BuildFailure(`${name}: packages must be a list of folders, such as "packages/*"`);
  return data?.packages ?? [];
}
