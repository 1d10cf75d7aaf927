// Workers Sites in workerd's config: a KV namespace with the files of the release.
import { join } from 'node:path';
import type { Assets, Release } from '../../../../bundler/release.ts';
import { SITE_NAMESPACE } from '../../../../bundler/workers-site/manifest.ts';
import { SERVICE_DATE } from '../bundled-services.ts';
import { type CapnpValue, embed } from '../capnp.ts';
import { textOf } from '../texts.ts';

const SERVICE = 'site';
const FILES = 'site-files';
const SITE_WORKER = textOf('./site/site-worker.js');

/** Returns the release's assets if they are those of Workers Sites, which the Worker serves; else null. */
export function siteOf({ assets }: Pick<Release, 'assets'>): (Assets & { siteManifest: string }) | null {
  return assets?.siteManifest === undefined ? null : { ...assets, siteManifest: assets.siteManifest };
}

/** Returns the name of the service that takes requests for the app: its static files come before its Worker. */
export function mainService(release: Pick<Release, 'assets'>): string {
  return release.assets === null || siteOf(release) !== null ? 'app' : 'assets';
}

export function siteBindings(release: Release): CapnpValue[] {
  return siteOf(release) === null ? [] : [{ name: SITE_NAMESPACE, kvNamespace: SERVICE }];
}

/**
 * Returns the services behind the namespace; empty without Workers Sites.
 * @param toRelease relative path from the config's directory to the release's
 */
export function siteServices(release: Release, toRelease: string): CapnpValue[] {
  const site = siteOf(release);
  if (site === null) return [];
  return [
    { name: FILES, disk: { path: site.directory, allowDotfiles: true } },
    {
      name: SERVICE,
      worker: {
        modules: [{ name: 'site.js', esModule: SITE_WORKER }],
        compatibilityDate: SERVICE_DATE,
        bindings: [
          { name: 'FILES', service: FILES },
          { name: 'MANIFEST', json: embed(join(toRelease, site.siteManifest)) },
        ],
      },
    },
  ];
}
