// Next.js projects without a Wrangler configuration. A deploy adds OpenNext's adapter to the worktree, as `wrangler deploy`
// adds it to the project. `wrangler setup` cannot be used: it prompts for a file, and signs in at Cloudflare for a bucket.
import { lstatSync } from 'node:fs';
import { join } from 'node:path';
import { newestCompatibilityDate } from '../configuration/compatibility-date.ts';
import { BuildFailure } from '../failure.ts';
import type { Place } from '../project/place.ts';
import { dependsOn, type PackageJson } from '../project/project.ts';
import { type Adapter, configText } from './adapter.ts';

const PACKAGES = ['@opennextjs/cloudflare@1.20.17', 'wrangler@4.164.0'];
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
  compatibility_date: newestCompatibilityDate,
  compatibility_flags: ['nodejs_compat', 'global_fetch_strictly_public'],
  assets: { directory: '.open-next/assets', binding: 'ASSETS' },
  services: [{ binding: 'WORKER_SELF_REFERENCE', service: 'app' }],
  r2_buckets: [{ binding: 'NEXT_INC_CACHE_R2_BUCKET', bucket_name: 'next-cache' }],
  images: { binding: 'IMAGES' },
};

/** The command that builds with the adapter. */
export const OPEN_NEXT_BUILD = 'opennextjs-cloudflare build';

/**
 * Returns OpenNext's adapter; `null` for a project that `next build` does not build for a server, or that has an adapter.
 * @throws {BuildFailure} when a file of the adapter exists, but its package is missing
 */
export function nextAdapter(place: Place, manifest: PackageJson): Adapter | null {
  if (!dependsOn(manifest, 'next') || OTHER_ADAPTERS.some((name) => dependsOn(manifest, name))) return null;
  const config = configText(place, NEXT_CONFIG);
  if (!/\bnext build\b/.test(manifest.scripts.build ?? '') || STATIC.test(config ?? '')) return null;
  const files = {
    'wrangler.jsonc': `${JSON.stringify(WRANGLER_CONFIG, null, 2)}\n`,
    'open-next.config.ts': OPEN_NEXT_CONFIG,
    ...(config === null && { 'next.config.mjs': 'export default {};\n' }),
  };
  const there = Object.keys(files).find((name) =>
    lstatSync(join(place.folder, name), { throwIfNoEntry: false }),
  );
  if (there !== undefined)
    throw new BuildFailure(
      `${there} is for @opennextjs/cloudflare, which package.json lacks: add both the package and a wrangler.jsonc, or remove the file`,
    );
  const ownCommand = 'npx @opennextjs/cloudflare migrate';
  return { framework: 'Next.js', ownCommand, files, packages: PACKAGES, wrangler: [] };
}
