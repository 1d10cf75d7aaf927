// Bundles the files of Workers Sites (`site`). The Worker reads them through the namespace `__STATIC_CONTENT`, by the keys
// in the module `__STATIC_CONTENT_MANIFEST`.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import type { WranglerConfig } from '../configuration/wrangler-config.ts';
import { copyAssets } from '../project/assets.ts';
import { insidePath, show } from '../project/path-containment.ts';
import type { Place } from '../project/place.ts';
import { counted } from '../project/site.ts';
import type { Assets, Bundle } from '../release.ts';
import { manifestOf, SITE_MANIFEST } from './manifest.ts';
import { pathMatcher } from './patterns.ts';

interface SiteSource {
  place: Place;
  /** The directory that a relative path of the configuration starts at. */
  base: string;
  site: NonNullable<WranglerConfig['site']>;
  out: string;
  /** The directory of the files, relative to `out`. */
  directory: string;
  limitMb: number;
}

/**
 * Copies the files of a site into a release, and adds the manifest to the Worker's modules.
 * @returns the assets, and a line for the deploy's log
 * @throws {BuildFailure} for a folder that is missing, files that exceed the limits, and a key that is too long
 */
export function bundleWorkersSite(
  { place, base, site, out, directory, limitMb }: SiteSource,
  worker: NonNullable<Bundle['worker']>,
): { assets: Assets; note: string } {
  const from = insidePath(place.root, base, site.bucket, 'site.bucket');
  const { include = [], exclude = [] } = site;
  const isIncluded = include.length === 0 ? () => true : pathMatcher(include);
  const isExcluded = pathMatcher(exclude);
  const isCopied = (path: string, isFolder: boolean) => {
    if (!isServed(posix.basename(path))) return false;
    return isFolder || (isIncluded(path) && !isExcluded(path));
  };
  const copied = copyAssets(place, from, join(out, directory), limitMb, { isCopied });
  const path = `modules/${SITE_MANIFEST}`;
  mkdirSync(join(out, dirname(path)), { recursive: true });
  writeFileSync(join(out, path), JSON.stringify(manifestOf(join(out, directory))));
  worker.modules.push({ name: SITE_MANIFEST, type: 'text', path });
  return {
    assets: {
      directory,
      binding: null,
      notFoundHandling: 'none',
      htmlHandling: 'none',
      runWorkerFirst: true,
      siteManifest: path,
    },
    note: `site: ${counted(copied.files)} in ${show(place.root, from)}`,
  };
}

/**
 * Returns whether a site serves a file or folder of this name. As in Wrangler, hidden names except `.well-known` are left
 * out.
 */
function isServed(name: string): boolean {
  return name !== 'node_modules' && (!name.startsWith('.') || name === '.well-known');
}
