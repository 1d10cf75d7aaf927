// Copies pages that Next.js made at build time into the cache of the Worker, as `opennextjs-cloudflare deploy` does. The
// kind of the cache is found by its name in the Worker's code: OpenNext's `populateCache` uses the same names.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { BuildFailure } from '../failure.ts';
import { filesIn } from '../files-in.ts';
import { copyAssets } from '../project/assets.ts';
import { isThere } from '../project/path-containment.ts';
import type { Place } from '../project/place.ts';
import {
  type Assets,
  type Bundle,
  type DatabaseMigration,
  FEWER_PAGES,
  PREFILL,
  type Prefill,
} from '../release.ts';

/** Where OpenNext writes the cache, relative to the project's folder. */
const CACHE = '.open-next/cache';
const BUCKET = { name: 'cf-r2-incremental-cache', binding: 'NEXT_INC_CACHE_R2_BUCKET' };
const NAMESPACE = { name: 'cf-kv-incremental-cache', binding: 'NEXT_INC_CACHE_KV' };
const ASSETS_NAME = 'cf-static-assets-incremental-cache';
/** The cache's folder among the Worker's assets. */
const ASSETS_CACHE = 'cdn-cgi/_next_cache';
const TAGS_BINDING = 'NEXT_TAG_CACHE_D1';
const TAGS_TABLE =
  'CREATE TABLE IF NOT EXISTS revalidations (tag TEXT NOT NULL, revalidatedAt INTEGER NOT NULL, stale INTEGER, expire INTEGER DEFAULT NULL, UNIQUE(tag) ON CONFLICT REPLACE);\n';

/** A project with OpenNext. Its Worker is bundled into `out`. */
interface Bundled {
  place: Place;
  file: string;
  config: WranglerConfig;
  worker: Bundle['worker'];
  assets: Assets | null;
  out: string;
  /** Maximum MiB of the cache. */
  limitMb: number;
}

/**
 * Copies the cache of a project with OpenNext into `out`, under the names that the Worker expects.
 * @returns `prefill`: the files to put into a bucket or a namespace; `assets`: the given assets, which may now contain the
 * cache
 * @throws {BuildFailure} for a cache that is too large or has a link out of the project, and for a Worker without the binding
 * to its cache
 */
export function copyNextCache({ place, file, config, worker, assets, out, limitMb }: Bundled): {
  prefill?: Prefill;
  assets: Assets | null;
} {
  const from = join(place.folder, CACHE);
  if (worker === null || !isThere(place.root, from)) return { assets };
  const text = readFileSync(join(out, worker.modules[0]!.path), 'utf8');
  if (assets !== null && text.includes(ASSETS_NAME)) {
    const to = join(out, assets.directory, ASSETS_CACHE);
    mkdirSync(dirname(to), { recursive: true });
    copyAssets(place, from, to, limitMb, { advice: FEWER_PAGES });
    return { assets: { ...assets, runWorkerFirst: hidden(assets) } };
  }
  const kind = [BUCKET, NAMESPACE].find(({ name }) => text.includes(name));
  if (kind === undefined) return { assets };
  const { binding } = kind;
  const isBucket = kind === BUCKET;
  const bindings = isBucket ? config.r2_buckets : config.kv_namespaces;
  if (!bindings.some((each) => each.binding === binding))
    throw new BuildFailure(
      `${file}: ${isBucket ? 'r2_buckets' : 'kv_namespaces'} has no binding ${binding}, where open-next.config.ts keeps the cache: add it`,
    );
  const files = copyByKey(place, from, join(out, PREFILL), limitMb);
  if (files === 0) return { assets };
  const { [`${binding.replace(/_BUCKET$/, '')}_PREFIX`]: named } = config.vars;
  const prefix = typeof named === 'string' ? named : 'incremental-cache';
  return {
    assets,
    prefill: { kind: isBucket ? 'bucket' : 'namespace', binding, directory: PREFILL, prefix, files },
  };
}

/** Adds the paths of the cache to `run_worker_first`, so that visitors cannot read its files. */
function hidden({ runWorkerFirst: first, basePath }: Assets): Assets['runWorkerFirst'] {
  const above = basePath === undefined ? '/' : '/*';
  return first === true ? true : [...(first || []), `${above}${ASSETS_CACHE}/*`];
}

/** Writes the migration that creates OpenNext's table of tags in its D1 database. Returns `[]` for other databases. */
export function tagsMigration(binding: string, out: string, target: string): DatabaseMigration[] {
  if (binding !== TAGS_BINDING) return [];
  const name = 'opennext-revalidations.sql';
  const path = `${target}/${name}`;
  mkdirSync(join(out, target), { recursive: true });
  writeFileSync(join(out, path), TAGS_TABLE);
  return [{ name, path }];
}

/** Copies each file to the path that is its key, without the prefix. @returns the number of files */
function copyByKey(place: Place, from: string, to: string, limitMb: number): number {
  const copied = `${to}-copied`;
  copyAssets(place, from, copied, limitMb, { advice: FEWER_PAGES });
  // Lists the copy, because it has no symbolic links.
  const files = filesIn(copied);
  for (const path of files) {
    const target = join(to, keyOf(path));
    mkdirSync(dirname(target), { recursive: true });
    renameSync(join(copied, path), target);
  }
  rmSync(copied, { recursive: true });
  return files.length;
}

/** Returns a file's key in the cache. @param path `<build>/<key>.cache` or `__fetch/<build>/<key>`; other paths throw */
function keyOf(path: string): string {
  const [, fetched, build, key] = /^(__fetch\/)?([^/]+)\/(.+)$/.exec(path) ?? [];
  if (key === undefined || (!fetched && !key.endsWith('.cache')))
    throw new BuildFailure(`${CACHE}/${path} is not an entry of OpenNext's cache`);
  const hash = createHash('sha256')
    .update(`/${fetched ? key : key.slice(0, -'.cache'.length)}`)
    .digest('hex');
  return `${build}/${hash}.${fetched ? 'fetch' : 'cache'}`;
}
