// Bundles the control plane's Worker.
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

/** The handlers as one ES module. */
export async function bundleHandlers(): Promise<string> {
  const result = await build({
    entryPoints: [fileURLToPath(new URL('../handlers/index.ts', import.meta.url))],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: 'es2024',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['cloudflare:*', 'node:*', 'workerd:*'],
    legalComments: 'none',
    logLevel: 'silent',
  });
  return result.outputFiles[0]!.text;
}
