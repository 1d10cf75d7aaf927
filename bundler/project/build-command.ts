// Finds the commands that build a project.
import { join } from 'node:path';
import type { BuildSettings } from '../../handlers/contract/host/host-calls.ts';
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import type { DeployScript } from '../deploy-script/deploy-script.ts';
import { OPEN_NEXT_BUILD } from '../frameworks/plain-next.ts';
import { isThere } from './path-containment.ts';
import { dependsOn, type PackageJson } from './project.ts';

/**
 * A line for the shell, or the script `build`. `cwd`: relative to the project's folder. `mayFail`: the
 * deploy goes on when the script fails, because it needs nothing that the script writes. `mayWantAccount`: the deploy goes on
 * when the command fails because it needs a Cloudflare account.
 */
export type BuildCommand =
  | { kind: 'command'; command: string; cwd: string; mayWantAccount?: true }
  | { kind: 'script'; mayFail?: true };

interface Sources {
  /** Real path of the repository. */
  root: string;
  settings: BuildSettings;
  /** The project's Wrangler configuration, if there is one. */
  config: WranglerConfig | null;
  /** The script that deploys the project, if there is one. */
  deploy: DeployScript | null;
  /** The project's package.json; `null` without one. */
  manifest: PackageJson | null;
  /** The package.json of the workspace above the project; `null` without a workspace. */
  above: PackageJson | null;
  /** Whether the deploy adds OpenNext's adapter. */
  addsOpenNext: boolean;
  /** Absolute path of the folder in which the project's packages are installed. */
  installed: string;
}

/**
 * Returns the commands that build a project, in order. The app's setting replaces all others. Else the script `build` runs
 * first, unless another command builds. Then come the deploy script's commands before Wrangler, then Wrangler's own command.
 */
export function buildCommands(sources: Sources): BuildCommand[] {
  const { settings, config, deploy } = sources;
  if (settings.build_command !== null) return [line(settings.build_command)];
  const commands: BuildCommand[] = config?.build.command
    ? [line(config.build.command, config.build.cwd ?? '.')]
    : [];
  const before = deploy?.before ?? null;
  // Only a line of one command may fail for lack of an account. In a longer line, the commands after it would not run.
  if (before !== null)
    commands.unshift(deploy!.isOneBefore ? { ...line(before), mayWantAccount: true } : line(before));
  const isOpenNext = before?.includes(OPEN_NEXT_BUILD);
  const needsScript = deploy?.startsWithBuild
    ? !isOpenNext
    : commands.length === 0 || (before !== null && !deploy?.builds);
  const script = needsScript ? scriptCommand(sources) : null;
  return script === null ? commands : [script, ...commands];
}

/** Returns the command for the script `build`; `null` without that script. */
function scriptCommand({ root, manifest, above, installed, addsOpenNext }: Sources): BuildCommand | null {
  const script = manifest?.scripts.build;
  if (script === undefined) return null;
  // The script builds for Node. OpenNext runs it, and turns its output into a Worker.
  const isOpenNext =
    addsOpenNext ||
    (dependsOn(manifest, '@opennextjs/cloudflare') && !script.includes('opennextjs-cloudflare'));
  if (isOpenNext) return line(OPEN_NEXT_BUILD);
  // turbo first builds the packages that the project depends on. It requires `packageManager`.
  if (above?.packageManager && dependsOn(above, 'turbo') && isThere(root, join(installed, 'turbo.json')))
    return line('turbo run build');
  return { kind: 'script' };
}

function line(command: string, cwd = '.'): Extract<BuildCommand, { kind: 'command' }> {
  return { kind: 'command', command, cwd };
}
