// Builds a commit into a release: checkout, install, build, bundle, release.
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Bundled } from '../../bundler/bundle.ts';
import { Bundler } from '../../bundler/client.ts';
import type { Release } from '../../bundler/release.ts';
import { newId } from '../../handlers/contract/id.ts';
import { log as logOfHost, reason } from '../log.ts';
import { removeTree } from '../machine/remove.ts';
import { resolveNames, type StorageNames } from '../storage/names.ts';
import type { BuildInput } from './build-input.ts';
import { trimCache } from './cache.ts';
import { checkout } from './checkout.ts';
import { buildStep, installStep } from './commands.ts';
import { type BuildDirectories, makeDirectories } from './environment.ts';
import { placeRelease } from './release.ts';

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
    await log.step('checkout', input.sha.slice(0, 12), () => checkoutStep(input, directories));
    const { project } = directories;
    // A project that cannot be deployed fails before it is installed.
    log.line("reading the project's configuration");
    const command = await bundler.plan(project, wranglerEnvironment(input), input.limits.stepTimeoutMs);
    await installStep(input, directories);
    await buildStep(input, directories, command);
    void trim();
    const { bundle } = await log.step('bundle', 'esbuild', () => bundleStep(input, directories, bundled));
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

async function checkoutStep(input: BuildInput, { project }: BuildDirectories): Promise<void> {
  const { repository, sha, scratch, limits, signal, log } = input;
  await checkout({
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
  bundled: string,
): Promise<Bundled> {
  const result = await bundler.bundle(
    project,
    bundled,
    wranglerEnvironment(input),
    input.limits.worktreeMb,
    input.limits.stepTimeoutMs,
  );
  for (const note of result.notes) input.log.line(note);
  return result;
}

async function releaseStep(
  { deployId, sha, storage, releaseDirectory, liveReleaseDirectory }: BuildInput,
  bundle: Bundled['bundle'],
  bundled: string,
): Promise<{ release: Release; storage: StorageNames }> {
  const { names, ...stored } = resolveNames(storage, bundle, readRelease(liveReleaseDirectory), newId);
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

function readRelease(directory: string | null): Release | null {
  const path = directory && join(directory, 'release.json');
  return path && existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Release) : null;
}
