// Keeps an app's cache between builds: installed packages and the package managers' caches, up to a limit.
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { removeTree } from '../../disk/remove.ts';
import { log } from '../../log.ts';
import { ChildError, runChild } from '../../processes/child.ts';
import { limited } from '../../resources/limited.ts';

const TIMEOUT_MS = 60_000;

/** Cache directories of the package managers and of the last install, below the app's cache. */
export function cacheDirectories(cache: string) {
  return {
    npm: join(cache, 'npm'),
    pnpm: join(cache, 'pnpm'),
    yarn: join(cache, 'yarn'),
    bun: join(cache, 'bun'),
    installed: join(cache, 'installed'),
  };
}

/**
 * Drops whole caches, the largest first, until the rest fits: a part of a package manager's cache is of no use. First
 * removes other files that a build has left in `cache`. Call it after all processes of the build have ended.
 * @param limitMb MiB of all caches together; 0 disables the cache
 * @returns the names of the dropped caches
 */
export async function trimCache(cache: string, limitMb: number): Promise<string[]> {
  const directories = cacheDirectories(cache);
  await removeOthers(cache, Object.keys(directories));
  const sizes = await kilobytesOf(Object.values(directories));
  const caches = Object.entries(directories)
    .map(([name, path]) => ({ name, path, kilobytes: sizes.get(path) }))
    .filter((each): each is typeof each & { kilobytes: number } => each.kilobytes !== undefined);
  caches.sort((a, b) => b.kilobytes - a.kilobytes);
  let total = caches.reduce((sum, { kilobytes }) => sum + kilobytes, 0);
  const dropped: string[] = [];
  for (const { name, path, kilobytes } of caches) {
    if (limitMb > 0 && total <= limitMb * 1024) break;
    await removeTree(path);
    total -= kilobytes;
    dropped.push(name);
  }
  return dropped;
}

/**
 * Drops the caches of whole apps, first those whose directory was changed longest ago, until `enough` resolves with true.
 * @param caches the directory of all caches
 * @param isBuilding whether an app is being built: then its cache stays
 */
export async function dropCachesUntil(
  enough: () => Promise<boolean>,
  caches: string,
  isBuilding: (appId: string) => boolean,
): Promise<void> {
  const dated = async (appId: string) => {
    const at = await stat(join(caches, appId)).then(
      ({ mtimeMs }) => mtimeMs,
      () => 0,
    );
    return { appId, at };
  };
  const found = await Promise.all((await readdir(caches).catch(() => [])).map(dated));
  for (const { appId } of found.sort((a, b) => a.at - b.at)) {
    if (await enough()) return;
    if (isBuilding(appId)) continue;
    log('warn', 'the disk is almost full: the build cache of an app is removed', { app: appId });
    await removeTree(join(caches, appId));
  }
}

/** Removes all entries of a directory except the named ones, however many a build has made there. */
async function removeOthers(directory: string, kept: string[]): Promise<void> {
  const names = kept.flatMap((name) => ['!', '-name', name]);
  const search = [...limited(), 'find', '-P', directory, '-mindepth', '1', '-maxdepth', '1', ...names];
  await runChild([...search, '-exec', 'rm', '-rf', '--', '{}', '+'], { timeoutMs: TIMEOUT_MS }).catch(
    (error: unknown) => {
      // Ignores a missing cache, and entries that could not be removed.
      if (!(error instanceof ChildError)) throw error;
    },
  );
}

/** Returns sizes in KiB of the existing paths, in one pass: a file that two paths share counts once. */
async function kilobytesOf(paths: string[]): Promise<Map<string, number>> {
  const output = await runChild([...limited(), 'du', '-sk', '--', ...paths], { timeoutMs: TIMEOUT_MS }).then(
    (result) => result.output.toString('utf8'),
    (error: unknown) => {
      // A timeout is an error here; a missing path is not.
      if (!(error instanceof ChildError) || error.exitCode === null) throw error;
      return error.output;
    },
  );
  const lines = output.trimEnd().split('\n');
  return new Map(
    lines.flatMap((line) => {
      const [size, path] = line.split('\t');
      return path === undefined ? [] : [[path, Number(size)]];
    }),
  );
}
