// Finds the commands that build a project.
import { join } from 'node:path';
import type { BuildSettings } from '../../handlers/contract/host/host-calls.ts';
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import type { DeployScript } from '../deploy-script/deploy-script.ts';
import { OPEN_NEXT_BUILD } from '../frameworks/plain-next.ts';
import { isThere } from './path-containment.ts';
import { dependsOn, type PackageJson } from './project.ts';

/**
 * A line for the shell, or the script `build` of package.json. `cwd`: relative to the project's folder. `mayFail`: the
 * deploy continues when the script fails, because the Worker's files exist without it. `mayWantAccount`: the deploy
 * continues when the command fails because it needs a Cloudflare account.
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
  /** The package.json in `installed`, such as that of a workspace; `null` when `installed` is the project's folder. */
  above: PackageJson | null;
  /** Whether the deploy adds OpenNext's adapter. */
  addsOpenNext: boolean;
  /** Absolute path of the folder in which the project's packages are installed. */
  installed: string;
}

/**
 * Returns the commands that build a project, in order. The setting `build_command` replaces all others. Without this
 * setting, the script `build` runs first, unless another command builds. Then come the commands of the deploy script before
 * Wrangler, then the command in Wrangler's configuration.
 */
export function buildCommands(sources: Sources): BuildCommand[] {
  const { settings, config, deploy } = sources;
  if (settings.build_command !== null) return [line(settings.build_command)];
  const commands: BuildCommand[] = config?.build.command
    ? [line(config.build.command, config.build.cwd ?? '.')]
    : [];
  const before = deploy?.before ?? null;
  // A line may fail for lack of an account only if it is one command. In a longer line, later commands would not run.
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
  // The script builds for Node. OpenNext's command runs the script, and turns its output into a Worker.
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
