// The control plane's Worker as one module.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ENTRY = fileURLToPath(new URL('../handlers/index.ts', import.meta.url));

/**
 * Bundles `handlers/index.ts` with what it imports, with the flags that workerd uses for a Wrangler project.
 * @returns an ES module: the fetch handler and the Durable Object class
 * @throws {Error} esbuild's, with file and line
 */
export async function bundleHandlers(): Promise<string> {
  const { outputFiles } = await build({
    entryPoints: [ENTRY],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['node:*', 'cloudflare:*', 'workerd:*'],
    loader: { '.sql': 'text' },
    logLevel: 'silent',
  });
  return outputFiles[0]!.text;
}
