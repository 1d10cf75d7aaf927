// Builds a commit into a release: checkout, install, build, bundle, release.
import { join } from 'node:path';
import type { Bundled } from '../../bundler/bundle.ts';
import type { Plan } from '../../bundler/plan.ts';
import type { Release } from '../../bundler/release.ts';
import { newId } from '../../handlers/contract/id.ts';
import { log as logOfHost, reason } from '../log.ts';
import { removeTree } from '../machine/remove.ts';
import { resolveNames, type StorageNames } from '../storage/names.ts';
import type { BuildInput } from './build-input.ts';
import { Bundler } from './bundler.ts';
import { trimCache } from './cache.ts';
import { checkout, type InstallInputs } from './checkout.ts';
import { buildStep, installStep } from './commands.ts';
import { type BuildDirectories, makeDirectories } from './environment.ts';
import { placeRelease, readRelease } from './release.ts';

export { BuildFailure } from '../../bundler/failure.ts';

const bundler = new Bundler();

/**
 * Builds a commit.
 * @returns the release that now lies in `releaseDirectory`, and the storage names to keep once it is live
 * @throws {BuildFailure} with a message for the project's author
 * @throws the signal's reason once it is aborted
 */
export async function build(input: BuildInput): Promise<{ release: Release; storage: StorageNames }> {
  const { scratch, releaseDirectory, log, signal } = input;
  const bundled = `${releaseDirectory}.new`;
  let trimmed: Promise<void> | null = null;
  const trim = () => (trimmed ??= trimStep(input));
  // It starts while git works.
  bundler.warm();
  try {
    const directories = makeDirectories(scratch, input.cacheDirectory);
    const { manifests } = await log.step('checkout', input.sha.slice(0, 12), () =>
      checkoutStep(input, directories),
    );
    const { project } = directories;
    // A project that cannot be deployed fails before it is installed.
    log.line("reading the project's configuration");
    const { stepTimeoutMs } = input.limits;
    const plan = await bundler.plan(project, wranglerEnvironment(input), manifests, stepTimeoutMs);
    await installStep(input, directories, plan);
    await buildStep(input, directories, plan);
    void trim();
    const { bundle } = await log.step('bundle', 'esbuild', () =>
      bundleStep(input, directories, plan, bundled),
    );
    signal.throwIfAborted();
    return await log.step('release', input.deployId, () => releaseStep(input, bundle, bundled));
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    await Promise.all([trim(), removeTree(scratch), removeTree(bundled)]);
  }
}

/** Ends the bundler's process, for a host that stops. */
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

/** Keeps the cache within its limit. That it could not is no fault of the project. */
async function trimStep({ cacheDirectory, limits, log }: BuildInput): Promise<void> {
  if (!log.steps.some(({ name, status }) => /^(install|build)$/.test(name) && status !== 'skipped')) return;
  try {
    const dropped = await trimCache(cacheDirectory, limits.cacheMb);
    if (dropped.length > 0 && limits.cacheMb > 0) {
      log.line(`the caches have more than ${limits.cacheMb} MiB: dropped that of ${dropped.join(', ')}`);
    }
  } catch (error) {
    logOfHost('warn', 'a cache could not be trimmed', { cache: cacheDirectory, error: reason(error) });
  }
}

async function bundleStep(
  input: BuildInput,
  { project }: BuildDirectories,
  plan: Plan,
  out: string,
): Promise<Bundled> {
  const { worktreeMb: assetsMb, stepTimeoutMs } = input.limits;
  const before = plan.command === null && plan.hasBuildScript ? plan.pages : null;
  const environment = wranglerEnvironment(input);
  const result = await bundler.bundle(
    { worktree: project, out, environment, assetsMb, before },
    stepTimeoutMs,
  );
  for (const note of result.notes) input.log.line(note);
  return result;
}

async function releaseStep(
  { deployId, sha, storage, releaseDirectory, liveReleaseDirectory }: BuildInput,
  bundle: Bundled['bundle'],
  bundled: string,
): Promise<{ release: Release; storage: StorageNames }> {
  const live = liveReleaseDirectory === null ? null : await readRelease(liveReleaseDirectory);
  const { names, ...stored } = resolveNames(storage, bundle, live, newId);
  const { worker, exports, vars, assets, triggers } = bundle;
  const own = { worker, exports, vars, assets, ...(triggers && { triggers }) };
  const release: Release = { format: 1, deployId, sha, ...own, ...stored };
  await placeRelease(release, bundled, releaseDirectory);
  return { release, storage: names };
}

/** The environment of a Wrangler configuration to deploy, named as Wrangler has it. */
function wranglerEnvironment({ env }: BuildInput): string | null {
  return env.CLOUDFLARE_ENV || null;
}
