// How a static site without a configuration is served: a single-page app, or pages.
import { join } from 'node:path';
import type { Assets } from '../release.ts';
import { assetRules } from './assets.ts';
import { isThere } from './path-containment.ts';
import { readHead } from './regular-file.ts';

/** Maximum bytes of a single-page app's page. */
const PAGE_BYTES = 2 ** 20;

/**
 * Describes the assets in `directory` of a release. A site whose only page loads a script is a single-page app.
 * @param root real path of the project
 * @param from the folder of the site in the project, which may have an `index.html`
 * @param pages the number of the site's HTML files
 * @throws {BuildFailure} for rules that are too large
 */
export function siteAssets(
  { root, from, pages }: { root: string; from: string; pages: number },
  out: string,
  directory: string,
): { assets: Assets; what: string } {
  const page = join(from, 'index.html');
  const isSinglePage = pages === 1 && isThere(root, page) && hasScript(root, page);
  const assets: Assets = {
    directory,
    binding: null,
    notFoundHandling: isSinglePage ? 'single-page-application' : '404-page',
    htmlHandling: 'auto-trailing-slash',
    runWorkerFirst: false,
    rules: assetRules(join(out, directory)),
  };
  return { assets, what: isSinglePage ? 'single-page app' : 'static site' };
}

/** Returns the text `1 file` or `<n> files`. */
export function counted(files: number): string {
  return files === 1 ? '1 file' : `${files} files`;
}

/** Whether a page has at most `PAGE_BYTES` and loads a script. */
function hasScript(root: string, path: string): boolean {
  const page = readHead(root, path, PAGE_BYTES + 1);
  return page.length <= PAGE_BYTES && /<script\b[^<>]*(?:\bsrc=|>\s*import\b)/i.test(page.toString('utf8'));
}
