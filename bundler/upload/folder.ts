// Makes a `Bundle` from the files of an uploaded folder: a static site. It runs in a worker thread.
import { mkdirSync, realpathSync } from 'node:fs';
import { join } from 'node:path';
import { requireBundleSize } from '../bundle-size-limit.ts';
import { counted, siteAssets } from '../project/site.ts';
import type { Bundle } from '../release.ts';
import { syncTree } from '../sync.ts';
import { ASSETS, linkAssets, type SessionPlace } from './assets.ts';

/**
 * Links the files of a session into `out`. When it resolves, all files are synced to the disk.
 * @throws {BuildFailure} for a session that has ended, and naming a file that was not sent
 */
export async function unpackFolder(
  session: string,
  place: SessionPlace,
): Promise<{ bundle: Bundle; notes: string[] }> {
  const { out } = place;
  mkdirSync(out, { recursive: true });
  const paths = Object.keys(linkAssets(session, place));
  const pages = paths.filter((path) => /\.html?$/.test(path)).length;
  const root = realpathSync(out);
  const { assets, what } = siteAssets({ root, from: join(root, ASSETS), pages }, root, ASSETS);
  const bundle: Bundle = {
    worker: null,
    exports: [],
    vars: {},
    assets,
    durableObjects: [],
    classMigrations: [],
    databases: [],
    namespaces: [],
  };
  requireBundleSize(bundle);
  await syncTree(out);
  return { bundle, notes: [`${what}: ${counted(paths.length)}`] };
}
