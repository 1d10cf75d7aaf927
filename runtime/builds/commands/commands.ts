// Runs the project's commands in a deploy: install, build, and the release command.
import { chmodSync, chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { BuildFailure } from '../../../bundler/failure.ts';
import type { BuildCommand } from '../../../bundler/project/build-command.ts';
import { insidePath } from '../../../bundler/project/path-containment.ts';
import type { Plan } from '../../../bundler/project/plan.ts';
import { cutText } from '../../../handlers/contract/text.ts';
import { changeOwner } from '../../isolation/rights.ts';
import type { User } from '../../isolation/users.ts';
import { reason } from '../../log.ts';
import { endProcesses } from '../../processes/orphaned-processes.ts';
import { findProgram } from '../../processes/programs.ts';
import { quote } from '../../processes/shell.ts';
import type { BuildInput } from '../release/build-input.ts';
import { checkOwner, checkSize, sizeLimits, watchSize } from '../usage/size.ts';
import { type ConfineOptions, confine } from './confine.ts';
import { type BuildDirectories, buildEnvironment, commitVariables } from './environment.ts';
import { InstallCache } from './install-cache.ts';
import { certificateFiles } from './network-settings.ts';
import { managerPrograms, type PackageManager, packageManager } from './package-manager.ts';
import { reportUnreachableRegistry } from './registry-check.ts';
import { CommandFailure, run } from './run.ts';
import { ShownOutput } from './shown-output.ts';
import { WRANGLER_FILES, wranglerCommand } from './wrangler.ts';

/** Maximum characters of a command's name in the log. */
const TITLE_LENGTH = 500;
/** Matches a line that calls a package manager. */
const MANAGERS = /\b(?:npm|npx|pnpm|yarn|bun)\b/;

/**
 * Runs the app's install command; without one, installs the packages that the project names. Reuses the last install if its
 * inputs were the same.
 * @param digest see `InstallInputs.digest`
 * @returns the install that the next build may reuse; null when it cannot be cached
 */
export async function installStep(
  input: BuildInput,
  directories: BuildDirectories,
  plan: Plan,
  digest: string | null,
): Promise<InstallCache | null> {
  const { log, settings } = input;
  if (settings.install_command !== null) {
    const line = settings.install_command;
    const command = { ...shellCommand(line, plan.folder), asksRegistry: MANAGERS.test(line) };
    await log.step('install', command.title, () => runInProject(input, directories, plan, command));
    return null;
  }
  if (!plan.hasDependencies) {
    log.skip('install', 'no dependencies');
    return null;
  }
  const { cache } = directories;
  const manager = packageManager(plan, cache);
  const { name, version, lockFile, unusedLockFiles, install } = manager;
  const title = `${name} ${install.includes('ci') ? 'ci' : 'install'}`;
  const at = plan.installFolder === '' ? '' : `in ${plan.installFolder}, `;
  const detail = `${title}, ${at}${version ? `${version}, ` : ''}${lockFile ? `by ${lockFile}` : 'without a lock file'}`;
  if (unusedLockFiles.length > 0)
    log.line(
      `${unusedLockFiles.join(', ')} not used, because ${lockFile} is: remove the lock files that are old, or name the package manager as "packageManager" in package.json`,
    );
  const kept = await installCache(input, directories, plan, manager, digest);
  const run = async () => {
    await kept?.before();
    const { installFolder: folder } = plan;
    await runInProject(input, directories, plan, { arguments: install, title, folder, asksRegistry: true });
    await kept?.after();
  };
  if (!kept?.isThere) await log.step('install', detail, run);
  else
    await log.step('install', 'unchanged, taken from the last build', async () => {
      if (await kept.take()) return;
      log.line(`the packages of the last build cannot be used again, so they are installed: ${detail}`);
      await run();
    });
  return kept;
}

/**
 * Returns `null` when the install cannot be cached: other files may matter, there is no lock file or npm, or caching is off.
 */
async function installCache(
  { env, limits, user }: BuildInput,
  directories: BuildDirectories,
  plan: Plan,
  manager: PackageManager,
  digest: string | null,
): Promise<InstallCache | null> {
  const npm = findProgram('npm');
  if (digest === null || plan.installAnew !== null || manager.lockFile === null) return null;
  if (npm === null || limits.cacheMb === 0) return null;
  const environment = await buildEnvironment(directories, env, plan);
  if (user) await changeOwner(Object.values(directories), user, limits.stepTimeoutMs);
  return new InstallCache(directories, user, { digest, environment, manager, npm });
}

/** Runs the commands that prepare the project for bundling, as one step of the deploy. */
export async function buildStep(input: BuildInput, directories: BuildDirectories, plan: Plan): Promise<void> {
  const { log } = input;
  if (plan.build.length === 0) return log.skip('build', 'no build script');
  const { packages, wrangler } = plan.adapter ?? { packages: [], wrangler: [] };
  const commands = [
    ...(packages.length > 0 ? [addCommand(packages, directories, plan)] : []),
    ...wrangler.map((words) => adapterCommand(words, plan)),
    ...plan.build.map((build) => commandOf(build, directories, plan)),
  ];
  await log.step('build', titleOf(commands.map(({ title }) => title).join(' && ')), async () => {
    for (const command of commands) await runInProject(input, directories, plan, command);
  });
}

/** Returns a function that runs the app's release command as one step of the deploy. Null without a command, and for a preview. */
export function releaseCommand(
  input: BuildInput,
  directories: BuildDirectories,
  plan: Plan,
): (() => Promise<void>) | null {
  const line = input.settings.release_command ?? null;
  if (line === null || input.isPreview) return null;
  const command = shellCommand(line, plan.folder);
  return () =>
    input.log.step('release_command', command.title, () => runInProject(input, directories, plan, command));
}

function commandOf(build: BuildCommand, { cache }: BuildDirectories, plan: Plan): ProjectCommand {
  if (build.kind === 'command') {
    const { command, cwd, mayWantAccount = false } = build;
    return { ...shellCommand(command, join(plan.folder, cwd)), mayWantAccount };
  }
  const manager = packageManager(plan, cache);
  return {
    arguments: manager.build,
    title: `${manager.name} run build`,
    folder: plan.folder,
    mayFail: build.mayFail ?? false,
  };
}

function addCommand(packages: string[], { cache }: BuildDirectories, plan: Plan): ProjectCommand {
  const { name, add } = packageManager(plan, cache);
  const title = `${name} add ${packages.join(' ')}`;
  return { arguments: [...add, ...packages], title, folder: plan.folder, asksRegistry: true };
}

function adapterCommand(words: string[], { folder }: Plan): ProjectCommand {
  // The set-up of Astro writes into public/, and fails without that folder. Other set-ups call `npx`, which would prompt.
  const command = ['env', 'npm_config_yes=true', ...wranglerCommand('public', words)];
  const title = `wrangler ${words[0]}`;
  return { arguments: command, title, folder, read: WRANGLER_FILES, asksRegistry: true };
}

/**
 * Makes programs for the project's commands.
 * @param calls the command that each program runs, by the program's name; the program's arguments follow
 * @returns the programs' directory
 */
function makePrograms(scratch: string, user: User | null, calls: Record<string, string[]>): string {
  const directory = join(scratch, 'programs');
  mkdirSync(directory, { recursive: true });
  openTo(user, directory);
  for (const [name, call] of Object.entries(calls)) {
    const path = join(directory, name);
    writeFileSync(path, `#!/bin/sh\nexec ${call.map(quote).join(' ')} "$@"\n`);
    openTo(user, path);
  }
  return directory;
}

/** Lets the build's user read and run a file or directory of the host, but not change it. Others have no rights on it. */
function openTo(user: User | null, path: string): void {
  chmodSync(path, 0o750);
  if (user !== null) chownSync(path, process.getuid!(), user.gid);
}

interface ProjectCommand {
  arguments: string[];
  title: string;
  /** Working directory, relative to the worktree. */
  folder: string;
  /** Files and directories of this machine that it may read, besides the system's. */
  read?: string[];
  /** Whether the deploy continues after an exit code other than 0. */
  mayFail?: boolean;
  /** Whether the deploy continues if the command fails because it needs a Cloudflare account. */
  mayWantAccount?: boolean;
  /** Whether it may get packages from a registry, which is then checked when the command takes long. */
  asksRegistry?: boolean;
}

function shellCommand(line: string, folder: string): ProjectCommand {
  return { arguments: ['sh', '-c', line], title: titleOf(line), folder };
}

function titleOf(line: string): string {
  return cutText(line.replace(/\s+/g, ' '), TITLE_LENGTH, '…');
}

/**
 * Runs a command in the build's isolation.
 * @throws {BuildFailure} when it fails, or exceeds a limit of builds
 */
export async function runInProject(
  input: BuildInput,
  directories: BuildDirectories,
  plan: Plan,
  command: ProjectCommand,
): Promise<void> {
  const { deployId, env, limits, user, isolation, scratch, signal, log } = input;
  const { project } = directories;
  const what = command.folder === plan.folder ? 'root_directory' : 'build.cwd';
  const cwd = insidePath(resolve(project), project, command.folder, what);
  const environment = {
    ...commitVariables(input, plan),
    ...(await buildEnvironment(directories, env, plan)),
  };
  const folders = [...new Set([plan.folder, plan.installFolder, ''])];
  const programs = folders.map((folder) => join(project, folder, 'node_modules', '.bin'));
  const manager = plan.hasDependencies ? packageManager(plan, directories.cache) : null;
  const called = makePrograms(scratch, user, managerPrograms(manager, directories.cache));
  const path = [...programs, environment.PATH, called].join(':');
  const size = sizeLimits(scratch, directories.cache, limits);
  if (user) await changeOwner(Object.values(directories), user, limits.stepTimeoutMs);
  const place: ConfineOptions = {
    isolation,
    deployId,
    scratch,
    directories,
    user,
    // Package managers set `npm_execpath` for scripts, so lines of a deploy script may start with it.
    environment: { ...environment, PATH: path, npm_execpath: manager?.name ?? 'npm' },
    read: [called, ...(await certificateFiles()), ...(command.read ?? [])],
    cwd,
    memoryMb: limits.memoryMb,
  };
  const confined = await confine(command.arguments, place);
  let registry: Promise<void> | undefined;
  const output = new ShownOutput(scratch, directories.cache);
  try {
    await run({
      ...command,
      arguments: confined.arguments,
      // The sandbox enters the command's directory. The programs before the sandbox must not read from there.
      cwd: confined.cwd,
      environment: confined.environment,
      endRest: () => endProcesses(user, scratch),
      watch: (ended, pid) => {
        if (command.asksRegistry)
          registry = reportUnreachableRegistry(place, ended, (line) => log.line(line), input.registryTimes);
        return Promise.race([watchSize(size, ended), confined.watch(ended, pid)]);
      },
      timeoutMs: limits.stepTimeoutMs,
      signal,
      onLine: (line) => {
        confined.onLine(line);
        const shown = output.shown(line);
        if (shown !== null) log.line(shown);
      },
    });
    const limit = await confined.explain('');
    if (limit !== null) log.line(`\`${command.title}\` reached a limit and continued: ${limit}`);
  } catch (error) {
    const limit = signal.aborted ? null : await confined.explain(reason(error));
    if (limit !== null) throw new BuildFailure(`${reason(error)}: ${limit}`);
    if (!(error instanceof CommandFailure)) throw error;
    const failure = output.error === null ? error.message : `${error.message}: ${output.error}`;
    if (command.mayFail)
      log.line(`warning: ${failure}; the files to deploy exist without it, so the deploy continues`);
    else if (command.mayWantAccount && output.wantsAccount)
      log.line(
        `warning: ${error.message}: it asks for a Cloudflare account; apps here need none, so the deploy continues`,
      );
    else throw new BuildFailure(failure);
  } finally {
    await registry;
    await confined.end();
  }
  await checkSize(size, signal);
  if (user) await checkOwner(project, user, signal);
}
