// Miniflare's own R2 modules inside an app's workerd: no other process, and no socket between the app and its bucket.
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import { workerdPath } from '../../runtime/fleets/process/start-cell.ts';

const DATE = '2026-10-01';

/**
 * Starts a workerd process with Miniflare's R2 modules.
 * @param worker the app's module, with a bucket as `BUCKET`
 * @returns the process, and its listening socket
 */
export async function startWithR2(
  scratch: string,
  worker: string,
): Promise<{ child: ChildProcess; socketPath: string }> {
  for (const name of ['do', 'blobs']) mkdirSync(join(scratch, name), { recursive: true });
  await bundleR2(join(scratch, 'r2.js'));
  writeFileSync(join(scratch, 'app.js'), worker);
  const socketPath = join(scratch, 'http.sock');
  writeFileSync(
    join(scratch, 'cell.capnp'),
    `using Workerd = import "/workerd/workerd.capnp";
    const config :Workerd.Config = (
      services = [ (name = "app", worker = .app), (name = "r2", worker = .r2),
        (name = "blobs", disk = (path = "${join(scratch, 'blobs')}", writable = true)),
        (name = "do", disk = (path = "${join(scratch, 'do')}", writable = true)) ],
      sockets = [ (name = "http", address = "unix:${socketPath}", http = ( ), service = "app") ] );
    const app :Workerd.Worker = ( compatibilityDate = "${DATE}", modules = [ (name = "app.js", esModule = embed "app.js") ],
      bindings = [ (name = "BUCKET", r2Bucket = (name = "r2", props = (json = "{\\"MINIFLARE_NAMESPACE\\":\\"main\\"}"))) ] );
    const r2 :Workerd.Worker = ( compatibilityDate = "${DATE}", compatibilityFlags = [ "experimental" ],
      modules = [ (name = "r2.js", esModule = embed "r2.js") ],
      bindings = [ (name = "MINIFLARE_OBJECT", durableObjectNamespace = "R2BucketObject"), (name = "MINIFLARE_BLOBS", service = "blobs") ],
      durableObjectNamespaces = [ (className = "R2BucketObject", uniqueKey = "r2", enableSql = true) ],
      durableObjectStorage = (localDisk = "do") );`,
  );
  const args = ['serve', join(scratch, 'cell.capnp'), '--experimental', '--control-fd=3'];
  const child = spawn(workerdPath(), args, { env: {}, stdio: ['ignore', 'ignore', 'inherit', 'pipe'] });
  await once(child.stdio[3]!, 'data');
  return { child, socketPath };
}

/** Bundles Miniflare's modules. `miniflare:` names its own files, and Node's modules have other names in its workers. */
async function bundleR2(outfile: string): Promise<void> {
  const require = createRequire(import.meta.url);
  const workers = join(dirname(require.resolve('miniflare')), 'workers');
  await build({
    stdin: {
      contents: `export { R2BucketObject } from '${workers}/r2/bucket.worker.js';
        export { default } from '${workers}/shared/object-entry.worker.js';`,
      resolveDir: workers,
    },
    outfile,
    bundle: true,
    format: 'esm',
    target: 'es2024',
    external: ['node:*', 'cloudflare:*'],
    plugins: [
      {
        name: 'miniflare',
        setup: ({ onResolve }) => {
          onResolve({ filter: /^miniflare:shared$/ }, () => ({
            path: join(workers, 'shared/index.worker.js'),
          }));
          onResolve({ filter: /^miniflare:zod$/ }, () => ({ path: join(workers, 'shared/zod.worker.js') }));
          onResolve({ filter: /^node-internal:internal_/ }, ({ path }) => ({
            path: path.replace('node-internal:internal_', 'node:'),
            external: true,
          }));
        },
      },
    ],
  });
}
