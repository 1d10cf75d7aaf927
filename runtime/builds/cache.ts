// What an app's builds keep for the next one: their package managers' caches, up to a limit.
import { execFile } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { log } from '../log.ts';
import { removeTree } from '../machine/remove.ts';

const execute = promisify(execFile);
const TIMEOUT_MS = 60_000;

/** Where each package manager keeps what it fetched, below the app's cache. */
export function cacheDirectories(cache: string) {
  return {
    npm: join(cache, 'npm'),
    pnpm: join(cache, 'pnpm'),
    yarn: join(cache, 'yarn'),
    bun: join(cache, 'bun'),
  };
}

/**
 * Drops whole caches, the largest first, until the rest fits. A part of a package manager's cache is worth nothing.
 * @param limitMb MiB of all of them; 0 keeps none
 * @returns the names of those dropped
 */
export async function trimCache(cache: string, limitMb: number): Promise<string[]> {
  const names = existsSync(cache) ? readdirSync(cache) : [];
  const caches = await Promise.all(
    names.map(async (name) => ({ name, kilobytes: await size(join(cache, name)) })),
  );
  caches.sort((a, b) => b.kilobytes - a.kilobytes);
  let total = caches.reduce((sum, { kilobytes }) => sum + kilobytes, 0);
  const dropped: string[] = [];
  for (const { name, kilobytes } of caches) {
    if (limitMb > 0 && total <= limitMb * 1024) break;
    await removeTree(join(cache, name));
    total -= kilobytes;
    dropped.push(name);
  }
  return dropped;
}

/**
 * Drops whole caches of apps, of those that have not been built for longest first, until `enough` resolves with true.
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
    log('warn', 'the disk is short of room: the build cache of an app is dropped', { app: appId });
    await removeTree(join(caches, appId));
  }
}

async function size(path: string): Promise<number> {
  const { stdout } = await execute('du', ['-sk', path], {
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin' },
    timeout: TIMEOUT_MS,
  });
  return Number.parseInt(stdout, 10);
}
