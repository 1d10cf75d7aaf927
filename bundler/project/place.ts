// Where a project is: its own folder, in a repository that may have others.
import { statSync } from 'node:fs';
import { join, relative } from 'node:path';
import { BuildFailure } from '../failure.ts';
import { insidePath, realInside } from './path-containment.ts';

export interface Place {
  /** Real path of the repository. Nothing outside it is used; paths are shown from here. */
  root: string;
  /** Real path of the folder with the project's configuration and package.json. */
  folder: string;
  /** What stands for the script `deploy` of its package.json, if anything does. */
  deployLine?: string | null;
}

/**
 * The place of a project in a repository at `root` (a real path).
 * @param rootDirectory the setting: its folder from there; `null`: the repository itself
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

/** The path from the repository of something in the project's folder. */
export function inFolder({ root, folder }: Place, name: string): string {
  return join(relative(root, folder), name);
}
