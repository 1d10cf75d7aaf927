// Build tools, such as Cloudflare's Vite plugin, write a Wrangler configuration of their own. They write its path into
// `.wrangler/deploy/config.json`. wrangler then deploys the written configuration.
import { dirname, join, resolve } from 'node:path';
import { BuildFailure } from '../failure.ts';
import { CONFIG_BYTES } from '../limits.ts';
import { insidePath, isThere, pathWithin, show } from '../project/path-containment.ts';
import type { Place } from '../project/place.ts';
import { readJsonText } from '../project/regular-file.ts';

const FILE = join('.wrangler', 'deploy', 'config.json');

/** The configuration that the project's build wrote. */
export interface Redirect {
  /** Absolute path of the configuration. */
  path: string;
  /** The configurations of other Workers that the build wrote, relative to the repository. */
  auxiliary: string[];
}

/**
 * Finds the configuration that the project's build wrote.
 * @param isBuilt whether the build has run; before that, the path may be of an earlier build, and its file may be missing
 * @returns `null` when there is none
 * @throws {BuildFailure} when it lies outside the project, or is missing after the build
 */
export function redirectedConfig({ root, folder }: Place, isBuilt: boolean): Redirect | null {
  const path = join(folder, FILE);
  if (!isThere(root, path)) return null;
  let redirect: { configPath?: unknown; auxiliaryWorkers?: ({ configPath?: unknown } | null)[] } | null;
  try {
    redirect = JSON.parse(readJsonText(root, path, CONFIG_BYTES));
  } catch (error) {
    throw new BuildFailure(`${FILE} cannot be read: ${(error as Error).message}`);
  }
  const named = String(redirect?.configPath);
  if (!isBuilt && !isThere(root, pathWithin(root, dirname(path), named, FILE))) return null;
  return {
    path: insidePath(root, dirname(path), named, FILE),
    auxiliary: [redirect?.auxiliaryWorkers ?? []]
      .flat()
      .map((each) => show(root, resolve(dirname(path), String(each?.configPath)))),
  };
}

/** Returns a line for the deploy's log about the other Workers that a build wrote; empty without such Workers. */
export function auxiliaryNotes({ auxiliary }: Redirect): string[] {
  if (auxiliary.length === 0) return [];
  return [
    `auxiliary Workers (${auxiliary.join(', ')}) are apps of their own: deploy each, with its name as the app's slug`,
  ];
}
