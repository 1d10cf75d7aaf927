// Which folder of a repository a project's packages are installed in: its own, or that of a workspace that it belongs to.
import { dirname, join, matchesGlob, relative } from 'node:path';
import { parse } from 'yaml';
import * as z from 'zod';
import { BuildFailure } from './failure.ts';
import { isThere } from './inside.ts';
import { CONFIG_BYTES } from './limits.ts';
import { findLockFiles } from './lock-files.ts';
import type { Place } from './place.ts';
import { readPackageJson, unnamedFolder, wranglerFolders } from './project.ts';
import { readProjectFile } from './regular-file.ts';

/** What is read of pnpm-workspace.yaml. A file without packages only has settings. */
const PNPM_WORKSPACE = z.nullable(z.object({ packages: z.nullish(z.array(z.string())) }));

/** The real path of that folder: the project's own where it has a lock file, else that of its workspace. */
export function installFolder({ root, folder }: Place): string {
  if (findLockFiles(root, folder).length > 0) return folder;
  for (let at = folder; at !== root; ) {
    at = dirname(at);
    if (hasMember(workspaceGlobs(root, at), relative(at, folder))) return at;
  }
  return folder;
}

/**
 * Where the one project of a repository is in whose root nothing can be deployed, nor be built to be.
 * @returns its folder from there; `null`: that cannot be told
 * @throws {BuildFailure} when several packages of a workspace could be meant
 */
export function onlyProject(root: string, builds: boolean): string | null {
  const globs = workspaceGlobs(root, root);
  const found = wranglerFolders(root).filter((path) => !builds || hasMember(globs, path));
  if (found.length > 1) throw unnamedFolder(found);
  return found[0] ?? null;
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
 * The folders that a workspace says are its packages; none where there is no workspace.
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
    throw new BuildFailure(`${name} is no YAML: ${(error as Error).message}`);
  }
  const { success, data } = PNPM_WORKSPACE.safeParse(content);
  if (!success) throw new BuildFailure(`${name}: packages must be a list of folders, such as "packages/*"`);
  return data?.packages ?? [];
}
