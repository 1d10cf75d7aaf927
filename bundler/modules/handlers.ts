// Bundles our own Workers, each as one module.
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { BuildOptions } from 'esbuild';
import { build } from './esbuild.ts';
import { sourcesKey } from './sources-key.ts';

/** Folders with the sources of the handlers and of the bundler. */
export const HANDLER_SOURCES = ['handlers', 'sqlite', 'bundler'];

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
 * Bundles `handlers/index.ts` and its imports.
 * @returns an ES module: the fetch handler and the Durable Object class
 * @throws {Error} esbuild's, with file and line
 */
export function bundleHandlers(): Promise<string> {
  return bundleWorker('../../handlers/index.ts', {});
}

/**
 * Returns the bundled handlers, from the cache if `sourcesKey` is unchanged. Each start of a host waits for them, and
 * bundling takes ten times as long as computing the key.
 * @param directory the cache, to which only the host may write. Null: no cache
 * @throws {Error} esbuild's, with file and line
 */
export async function keptHandlers(directory: string | null): Promise<string> {
  if (directory === null) return bundleHandlers();
  const path = join(directory, 'handlers.js');
  const [key, kept] = await Promise.all([
    sourcesKey(HANDLER_SOURCES),
    readFile(path, 'utf8').catch(() => ''),
  ]);
  const firstLine = `// ${key}\n`;
  if (kept.startsWith(firstLine)) return kept;
  const script = firstLine + (await bundleHandlers());
  // The cache is optional: the disk may be full, or the directory missing. Then the next start bundles again.
  await keep(path, script).catch(() => {});
  return script;
}

async function keep(path: string, script: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const beside = `${path}.${process.pid}`;
  try {
    await writeFile(beside, script, { mode: 0o600 });
    await rename(beside, path);
  } catch (error) {
    await rm(beside, { force: true });
    throw error;
  }
}

/**
 * Bundles `handlers/ui/index.ts`, the control UI's server.
 * @returns an ES module: the fetch handler. It imports Node's crypto
 * @throws {Error} esbuild's, with file and line
 */
export function bundleUiServer(): Promise<string> {
  return bundleWorker('../../handlers/ui/index.ts', {
    minify: true,
    // better-auth would hash passwords in JavaScript, ten times slower than Node's crypto, which workerd provides.
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
