// Builds a commit into a release: checkout, install, build, bundle, release.
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bundled } from '../../../bundler/bundle.ts';
import { BuildFailure } from '../../../bundler/failure.ts';
import type { BuiltProject, Plan } from '../../../bundler/project/plan.ts';
import type { Release } from '../../../bundler/release.ts';
import { removeTree } from '../../disk/remove.ts';
import { log as logOfHost, reason } from '../../log.ts';
import type { StorageNames } from '../../storage/names.ts';
import { trimCache } from '../commands/cache.ts';
import { buildStep, installStep, releaseCommand } from '../commands/commands.ts';
import { type BuildDirectories, makeDirectories } from '../commands/environment.ts';
import type { InstallCache } from '../commands/install-cache.ts';
import { compileFunctions } from '../commands/pages-functions.ts';
import { checkout, type InstallInputs } from '../source/checkout.ts';
import { makeHistory } from '../source/history.ts';
import type { BuildInput } from './build-input.ts';
import { Bundler } from './bundler.ts';
import { warnOfLocalSecrets } from './check-secrets.ts';
import { placeBundle, readRelease } from './release.ts';

export { BuildFailure };

const bundler = new Bundler();

/** Files that esbuild also looks for in all folders above a project. */
const FOUND_ABOVE = ['package.json', 'tsconfig.json'];

interface Built {
  release: Release;
  storage: StorageNames;
}

/** What is left to do after a build. */
export interface AfterBuild {
  /** Runs the app's release command in the built checkout; `null`: nothing runs. @throws {BuildFailure} when it fails */
  beforeLive: (() => Promise<void>) | null;
  /** Stores and trims the app's caches. Call it after `beforeLive`; further calls wait for the first. Never rejects. */
  tidy: () => Promise<void>;
}

/**
 * Builds a commit. Afterwards the caller removes the files in `scratch`, which takes a while: minutes on a busy machine.
 * @returns the release, now in `releaseDirectory`, and the storage names to keep once it is live
 * @throws {BuildFailure} with a message for the project's author
 * @throws the signal's reason once it is aborted
 */
export async function build(input: BuildInput): Promise<Built & AfterBuild> {
  const { scratch, releaseDirectory, log, signal } = input;
  const bundled = `${releaseDirectory}.new`;
  // Starts the bundler's process while git works.
  warmBundler();
  try {
    const directories = makeDirectories(scratch, input.cacheDirectory);
    const { manifests, digest } = await log.step('checkout', input.sha.slice(0, 12), () =>
      checkoutStep(input, directories),
    );
    const { project } = directories;
    // Before the install, so that an undeployable project fails early.
    log.line("reading the project's configuration");
    const { stepTimeoutMs } = input.limits;
    const environment = wranglerEnvironment(input);
    const { settings } = input;
    const plan = await bundler.plan({ worktree: project, settings, environment, manifests }, stepTimeoutMs);
    for (const note of plan.notes) log.line(note);
    if (plan.outside !== null) await input.requireOutside(plan.outside);
    await warnOfLocalSecrets(join(project, plan.folder), environment, log);
    // Written before any command of the project runs: a command could put a link in their place.
    for (const [name, text] of Object.entries(plan.adapter?.files ?? {}))
      writeFileSync(join(project, plan.folder, name), text, { flag: 'wx' });
    const beforeLive = releaseCommand(input, directories, plan);
    const runsCommands =
      plan.hasDependencies ||
      plan.build.length > 0 ||
      settings.install_command !== null ||
      beforeLive !== null;
    const early = plan.mayNeedNoPackages
      ? await bundleWithoutPackages(input, directories, plan, bundled)
      : null;
    if (runsCommands && early === null) await makeHistory(input, project, join(scratch, 'index'));
    const installed = early === null ? await installStep(input, directories, plan, digest) : null;
    if (early !== null) log.skip('install', 'nothing that is deployed uses a package');
    await buildStep(input, directories, plan);
    const { bundle } = await log.step('bundle', 'esbuild', async () => {
      if (
        early === null &&
        (await bundler.mustCompileFunctions(builtProject(input, directories, plan), stepTimeoutMs))
      )
        await compileFunctions(input, directories, plan);
      const result = early ?? (await bundleStep(input, directories, plan, bundled));
      for (const note of result.notes) log.line(note);
      return result;
    });
    signal.throwIfAborted();
    const built = await log.step('release', input.deployId, () => releaseStep(input, bundle, bundled));
    let tidied: Promise<void> | null = null;
    const tidy = () => (tidied ??= tidyUp(input, installed));
    // With a release command, the caller calls `tidy` later: `tidy` moves the packages away, and the command may need them.
    if (beforeLive === null) void tidy();
    return { ...built, beforeLive, tidy };
  } catch (error) {
    await tidyUp(input, null);
    await removeTree(bundled);
    signal.throwIfAborted();
    throw error;
  }
}

/** Moves the installed packages to the cache for the next build, and trims the cache. Logs failures; never rejects. */
async function tidyUp(input: BuildInput, installed: InstallCache | null): Promise<void> {
  const failed = (error: unknown) =>
    logOfHost('warn', 'the caches of a build could not be stored or trimmed', {
      app: input.appId,
      error: reason(error),
    });
  await installed?.keep().catch(failed);
  await trimStep(input).catch(failed);
}

/** Starts the bundler's process for a later build. */
export function warmBundler(): void {
  bundler.warm();
}

/** Ends the bundler's process when the host stops. */
export function closeBundler(): void {
  bundler.close();
}

function checkoutStep(input: BuildInput, { project }: BuildDirectories): Promise<InstallInputs> {
  const { repository, sha, scratch, limits, signal, log } = input;
  return checkout({
    repository,
    sha,
    project,
    index: join(scratch, 'index'),
    worktreeMb: limits.worktreeMb,
    timeoutMs: limits.stepTimeoutMs,
    signal,
    onLine: (line) => log.line(line),
  });
}

/** Trims the cache to its limit, if the build ran any command. */
async function trimStep({ cacheDirectory, limits, log }: BuildInput): Promise<void> {
  if (
    !log.steps.some(
      ({ name, status }) => /^(install|build|release_command)$/.test(name) && status !== 'skipped',
    )
  )
    return;
  const dropped = await trimCache(cacheDirectory, limits.cacheMb);
  if (dropped.length === 0 || limits.cacheMb === 0) return;
  const names = dropped.map((name) =>
    name === 'installed' ? 'the installed packages' : `the cache of ${name}`,
  );
  log.line(`the caches have more than ${limits.cacheMb} MiB: dropped ${names.join(', ')}`);
}

function builtProject(input: BuildInput, { project }: BuildDirectories, plan: Plan): BuiltProject {
  return {
    worktree: project,
    settings: { ...input.settings, root_directory: plan.folder || null },
    environment: wranglerEnvironment(input),
    deployLine: plan.deployLine,
    before: plan.pages,
  };
}

/**
 * Bundles a project. Meanwhile, files in `scratch` with an empty object hide those of folders above, such as Cellar's own
 * folder, which would change the result. Removes them afterwards: Yarn would take `scratch` as the root of the project.
 */
async function bundleStep(
  input: BuildInput,
  directories: BuildDirectories,
  plan: Plan,
  out: string,
): Promise<Bundled> {
  const { worktreeMb: assetsMb, stepTimeoutMs } = input.limits;
  const hiding = FOUND_ABOVE.map((name) => join(input.scratch, name));
  for (const path of hiding) writeFileSync(path, '{}');
  try {
    return await bundler.bundle({ ...builtProject(input, directories, plan), out, assetsMb }, stepTimeoutMs);
  } finally {
    for (const path of hiding) rmSync(path, { force: true });
  }
}

/**
 * Bundles a project before its packages are installed. If it may need a package, returns `null` and leaves nothing in `out`.
 */
async function bundleWithoutPackages(
  input: BuildInput,
  directories: BuildDirectories,
  plan: Plan,
  out: string,
): Promise<Bundled | null> {
  const result = await bundleStep(input, directories, plan, out).catch((error: unknown) => {
    if (error instanceof BuildFailure) return null;
    throw error;
  });
  if (result?.isComplete) return result;
  await removeTree(out);
  return null;
}

async function releaseStep(
  {
    deployId,
    sha,
    storage,
    releaseDirectory,
    liveReleaseDirectory,
    isPreview,
    keyOf,
    certificateOf,
  }: BuildInput,
  bundle: Bundled['bundle'],
  bundled: string,
): Promise<Built> {
  const live = liveReleaseDirectory === null ? null : await readRelease(liveReleaseDirectory);
  return placeBundle(
    bundle,
    { deployId, sha, storage, live, isPreview, keyOf, certificateOf },
    bundled,
    releaseDirectory,
  );
}

/** Returns the environment of the Wrangler configuration to deploy, which `CLOUDFLARE_ENV` names. Null: the top level. */
function wranglerEnvironment({ env }: BuildInput): string | null {
  return env.CLOUDFLARE_ENV || null;
}
