// What makes a project ready for bundling.
import { join } from 'node:path';
import type { BuildSettings } from '../handlers/contract/host-calls.ts';
import { isThere } from './inside.ts';
import type { PackageJson } from './project.ts';
import type { WranglerConfig } from './wrangler-config.ts';

/** A line for the shell, or the script `build`. `cwd`: from the project's folder. */
export type BuildCommand = { kind: 'command'; command: string; cwd: string } | { kind: 'script' };

/** What says how a project is built. */
interface Sources {
  /** Real path of the repository. */
  root: string;
  settings: BuildSettings;
  /** Its Wrangler configuration, if there is one. */
  config: WranglerConfig | null;
  /** Its own package.json, and that of the workspace above it. */
  manifest: PackageJson | null;
  above: PackageJson | null;
  /** Where its packages are installed, as an absolute path. */
  installed: string;
}

/** How a project is built; `null`: nothing says so. */
export function buildCommand({
  root,
  settings,
  config,
  manifest,
  above,
  installed,
}: Sources): BuildCommand | null {
  const line = (command: string, cwd = '.'): BuildCommand => ({ kind: 'command', command, cwd });
  if (settings.build_command !== null) return line(settings.build_command);
  if (config?.build.command) return line(config.build.command, config.build.cwd ?? '.');
  const script = manifest?.scripts.build;
  if (script === undefined) return null;
  // Its script builds for Node. The adapter calls that, and makes a Worker of what comes of it.
  const isOpenNext = has(manifest, '@opennextjs/cloudflare') && !script.includes('opennextjs-cloudflare');
  if (isOpenNext) return line('opennextjs-cloudflare build');
  // It builds the packages before that the project needs. It goes by the package manager that is named.
  if (above?.packageManager && has(above, 'turbo') && isThere(root, join(installed, 'turbo.json')))
    return line('turbo run build');
  return { kind: 'script' };
}

function has(manifest: PackageJson | null, dependency: string): boolean {
  return manifest?.dependencies.some(([name]) => name === dependency) ?? false;
}
