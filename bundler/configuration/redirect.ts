// Build tools, such as Cloudflare's Vite plugin, write a Wrangler configuration of their own. They write its path into
// `.wrangler/deploy/config.json`. wrangler then deploys the written configuration.
import { dirname, join } from 'node:path';
import { BuildFailure } from '../failure.ts';
import { CONFIG_BYTES } from '../limits.ts';
import { insidePath, isThere } from '../project/path-containment.ts';
import type { Place } from '../project/place.ts';
import { readJsonText } from '../project/regular-file.ts';

const FILE = join('.wrangler', 'deploy', 'config.json');

/**
 * Finds the configuration that the project's build wrote.
 * @returns its path, or `null` when there is none
 * @throws {BuildFailure} when it lies outside the project, or asks for several Workers
 */
export function redirectedConfig({ root, folder }: Place): string | null {
  const path = join(folder, FILE);
  if (!isThere(root, path)) return null;
  let redirect: { configPath?: unknown; auxiliaryWorkers?: unknown[] };
  try {
    redirect = JSON.parse(readJsonText(root, path, CONFIG_BYTES));
  } catch (error) {
    throw new BuildFailure(`${FILE} cannot be read: ${(error as Error).message}`);
  }
  if ((redirect.auxiliaryWorkers?.length ?? 0) > 0) {
    throw new BuildFailure(`${FILE}: auxiliary Workers are not supported: one app is one Worker`);
  }
  return insidePath(root, dirname(path), String(redirect.configPath), FILE);
}
