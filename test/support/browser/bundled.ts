// Bundles a sample app with the packages of Cloudflare that this repository has, so that its deploy needs no registry.
import { readFileSync } from 'node:fs';
import { build } from 'esbuild';

/** Returns the entry of a sample app with its packages, as the files to deploy. */
export async function bundled(app: string): Promise<Record<string, string>> {
  const { outputFiles } = await build({
    entryPoints: [`test/apps/${app}/index.js`],
    bundle: true,
    write: false,
    format: 'esm',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['node:*', 'cloudflare:*'],
    mainFields: ['browser', 'module', 'main'],
    legalComments: 'none',
  });
  return { 'index.js': outputFiles[0]!.text };
}

/** The reason why this machine cannot run a browser; `undefined` if it can. */
export const noBrowser: string | undefined = hasChromium() ? undefined : 'there is no /usr/bin/chromium';

function hasChromium(): boolean {
  try {
    return readFileSync('/usr/bin/chromium').length > 0;
  } catch {
    return false;
  }
}
