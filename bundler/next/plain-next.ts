// Next.js without a Wrangler configuration. Cellar adds OpenNext's adapter for the build, as `wrangler deploy` adds it to the
// project. `wrangler setup` itself does not fit: it asks for a file, and signs in at Cloudflare for a bucket.
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { BuildSettings } from '../../handlers/contract/host/host-calls.ts';
import { newestCompatibilityDate } from '../configuration/compatibility-date.ts';
import { BuildFailure } from '../failure.ts';
import { CONFIG_BYTES } from '../limits.ts';
import { hasFunctions } from '../project/cloudflare-pages.ts';
import { LOCK_FILES, type LockFile } from '../project/lock-files.ts';
import type { Place } from '../project/place.ts';
import type { PackageJson } from '../project/project.ts';
import { readProjectFile } from '../project/regular-file.ts';

const ADAPTER = '@opennextjs/cloudflare@1.20.17';
const WRANGLER = 'wrangler@4.164.0';
const NEXT_CONFIG = /^next\.config\.(?:[cm]?js|[cm]?ts)$/;
/** Matches a configuration whose build is a static site. */
const STATIC = /\boutput\s*:\s*["'`]export["'`]/;
/** Packages that build Next.js for Cloudflare another way. */
const OTHER_ADAPTERS = ['@opennextjs/cloudflare', '@cloudflare/next-on-pages', 'vinext'];
const OPEN_NEXT_CONFIG = `import { defineCloudflareConfig } from '@opennextjs/cloudflare';
import r2IncrementalCache from '@opennextjs/cloudflare/overrides/incremental-cache/r2-incremental-cache';

export default defineCloudflareConfig({ incrementalCache: r2IncrementalCache });
`;
const WRANGLER_CONFIG = {
  name: 'app',
  main: '.open-next/worker.js',
  compatibility_flags: ['nodejs_compat', 'global_fetch_strictly_public'],
  assets: { directory: '.open-next/assets', binding: 'ASSETS' },
  services: [{ binding: 'WORKER_SELF_REFERENCE', service: 'app' }],
  r2_buckets: [{ binding: 'NEXT_INC_CACHE_R2_BUCKET', bucket_name: 'next-cache' }],
  images: { binding: 'IMAGES' },
};
/** How each package manager adds packages for one build. */
const ADD: Record<(typeof LOCK_FILES)[LockFile['name']], string> = {
  npm: 'npm install --no-save --no-audit --no-fund --legacy-peer-deps',
  pnpm: 'pnpm add --save-dev --ignore-workspace-root-check',
  yarn: 'yarn add --dev',
  bun: 'bun add --dev',
};

/** Whether only Next.js says what a project is, and its pages are rendered on a server. */
export function isPlainNext(place: Place, manifest: PackageJson, settings: BuildSettings): boolean {
  const isUsed = (name: string) => manifest.dependencies.some(([each]) => each === name);
  if (!isUsed('next') || OTHER_ADAPTERS.some(isUsed)) return false;
  if (settings.build_command !== null || settings.output_directory !== null || hasFunctions(place))
    return false;
  return /\bnext build\b/.test(manifest.scripts.build ?? '') && !STATIC.test(nextConfig(place) ?? '');
}

/**
 * Adds to the worktree what OpenNext's adapter needs. It was not there: see `isPlainNext`.
 * @returns the commands that add its packages and build
 * @throws {BuildFailure} when a file of it exists, which nothing uses
 */
export function setUpNext(place: Place, lockFile: LockFile['name'] | undefined): string[] {
  const config = { ...WRANGLER_CONFIG, compatibility_date: newestCompatibilityDate };
  write(place, 'wrangler.jsonc', `${JSON.stringify(config, null, 2)}\n`);
  write(place, 'open-next.config.ts', OPEN_NEXT_CONFIG);
  if (nextConfig(place) === null) write(place, 'next.config.mjs', 'export default {};\n');
  const manager = lockFile === undefined ? 'npm' : LOCK_FILES[lockFile];
  return [`${ADD[manager]} ${ADAPTER} ${WRANGLER}`, 'opennextjs-cloudflare build'];
}

function nextConfig({ root, folder }: Place): string | null {
  const name = readdirSync(folder).find((each) => NEXT_CONFIG.test(each));
  return name === undefined ? null : readProjectFile(root, join(folder, name), CONFIG_BYTES).toString('utf8');
}

function write({ folder }: Place, name: string, text: string): void {
  try {
    // Never through a link.
    writeFileSync(join(folder, name), text, { flag: 'wx' });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    throw new BuildFailure(
      `${name} is for @opennextjs/cloudflare, which package.json lacks: add both the package and a wrangler.jsonc, or remove the file`,
    );
  }
}
