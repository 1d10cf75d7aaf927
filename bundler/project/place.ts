// A project's folder, in a repository that may have other projects.
import { statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { BuildFailure } from '../failure.ts';
import { insidePath, realInside } from './path-containment.ts';

export interface Place {
  /** Real path of the repository. Cellar uses nothing outside it, and shows paths relative to it. */
  root: string;
  /** Real path of the folder with the project's configuration and package.json. */
  folder: string;
  /** A shell line that replaces the script `deploy` of its package.json, if there is one. */
  deployLine?: string | null;
}

/**
 * Returns the place of a project in a repository at `root` (a real path).
 * @param rootDirectory the setting, relative to `root`; `null`: the repository itself
 * @throws {BuildFailure} when there is no such folder
 */
export function placeOf(root: string, rootDirectory: string | null): Place {
  if (rootDirectory === null) return { root, folder: root };
  const path = insidePath(root, root, rootDirectory, 'root_directory');
  if (!statSync(path).isDirectory())
    throw new BuildFailure(
      `root_directory: ${rootDirectory} is a file; name a folder with \`cellar builds set\` or in the app's settings`,
    );
  return { root, folder: realInside(root, path)! };
}

/** Converts a path relative to the project's folder into a path relative to the repository. */
export function inFolder({ root, folder }: Place, name: string): string {
  return join(relative(root, folder), name);
}
