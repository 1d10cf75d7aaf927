// The adapter for Cloudflare that a deploy adds to a project whose framework renders on a server. The project has no
// Wrangler configuration.
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { CONFIG_BYTES } from '../limits.ts';
import type { Place } from '../project/place.ts';
import { readProjectFile } from '../project/regular-file.ts';

/** How a framework's adapter for Cloudflare gets into a worktree before its build. */
export interface Adapter {
  framework: string;
  /** The command by which the project's author adds the adapter permanently. */
  ownCommand: string;
  /** The text of each new file, by its name in the project's folder. */
  files: Record<string, string>;
  /** Packages to add after the install, with their versions. */
  packages: string[];
  /** Arguments of the Wrangler commands that add the adapter after the install. */
  wrangler: string[][];
}

/** Returns the line for the deploy's log about an adapter that the deploy adds. */
export function adapterNote({ framework, ownCommand }: Adapter): string {
  return `${framework} without a Wrangler configuration: this build adds its adapter for Cloudflare. To choose its settings yourself, run \`${ownCommand}\`, and commit what it writes`;
}

/** Returns the text of a framework's configuration; `null` without one. @param names matches the file's name */
export function configText({ root, folder }: Place, names: RegExp): string | null {
  const name = readdirSync(folder).find((each) => names.test(each));
  return name === undefined ? null : readProjectFile(root, join(folder, name), CONFIG_BYTES).toString('utf8');
}
