// Our own Workers, each as one module.
import { fileURLToPath } from 'node:url';
import type { BuildOptions } from 'esbuild';
import { build } from './esbuild.ts';

const SHARED = {
  bundle: true,
  write: false,
  format: 'esm',
  platform: 'browser',
  target: 'es2024',
  conditions: ['workerd', 'worker', 'browser'],
  external: ['node:*', 'cloudflare:*', 'workerd:*'],
  loader: { '.sql': 'text' },
  logLevel: 'silent',
} as const satisfies BuildOptions;

/**
 * Bundles `handlers/index.ts` with what it imports, with the flags that workerd uses for a Wrangler project.
 * @returns an ES module: the fetch handler and the Durable Object class
 * @throws {Error} esbuild's, with file and line
 */
export function bundleHandlers(): Promise<string> {
  return bundleWorker('../handlers/index.ts', {});
}

/**
 * Bundles `handlers/ui/index.ts`, the control UI's server.
 * @returns an ES module: the fetch handler. It imports Node's crypto
 * @throws {Error} esbuild's, with file and line
 */
export function bundleUiServer(): Promise<string> {
  return bundleWorker('../handlers/ui/index.ts', {
    minify: true,
    // The library would hash passwords in JavaScript, ten times as slowly as Node's crypto does, which workerd has.
    alias: {
      '@better-auth/utils/password': fileURLToPath(import.meta.resolve('@better-auth/utils/password')),
    },
  });
}

async function bundleWorker(entry: string, options: BuildOptions): Promise<string> {
  const entryPoints = [fileURLToPath(new URL(entry, import.meta.url))];
  const { outputFiles } = await build({ ...SHARED, ...options, write: false, entryPoints });
  return outputFiles[0]!.text;
}
