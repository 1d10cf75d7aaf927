// A release as workerd's text config. Everything in it is relative to the release's directory, where workerd is
// started; storage and sockets are named on its command line. So the file is written once and may be moved.
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { isAbsolute, join, normalize } from 'node:path';
import type { Assets, Module, Release } from '../../bundler/release.ts';
import { type CapnpValue, capnp, embed } from './capnp.ts';

/** The config's name in a release's directory. */
export const CELL_CONFIG = 'cell.capnp';

/** The module that a Worker is entered by, beside its own. */
const ENTRY = 'cellar-entry.js';
const ENTRY_WORKER = readFileSync(new URL('./entry-worker.js', import.meta.url), 'utf8');

type Fields = { [field: string]: CapnpValue };

/** For workerd's own D1 and KV services, which ask for RPC: 2024-04-03 or later. */
const SERVICE_DATE = '2026-01-01';
/** How assets behave for a site without a Worker, which states no compatibility date. */
const STATIC_SITE_DATE = '2026-01-01';
/** From then on workerd takes `nodejs_compat` for granted and warns when it is asked for. */
const NODEJS_COMPAT_DEFAULT_DATE = '2026-08-04';

/**
 * Writes `cell.capnp` into a release's directory. Sockets: `http` serves the app; `health` runs none of its code, and
 * answers with the number of pieces of `waitUntil` work under way where there is a Worker.
 * Disks, given at start: `do` (Durable Objects, D1, and KV's index), `kv` (KV's large values).
 * @throws {Error} naming the path when a module or the assets lie outside the directory
 */
export async function writeCellConfig(release: Release, directory: string): Promise<void> {
  const config: Fields = {
    structuredLogging: true,
    services: await services(release, directory),
    sockets: [
      {
        name: 'http',
        // Written by the gateway: behind TLS the Worker sees an https URL. workerd takes the header out, so it
        // is not X-Forwarded-Proto, which apps read too.
        http: { forwardedProtoHeader: 'X-Cellar-Proto' },
        service: release.assets === null ? 'app' : 'assets',
      },
      {
        name: 'health',
        http: {},
        service: release.worker === null ? 'health' : { name: 'app', entrypoint: 'CellarState' },
      },
    ],
  };
  if (release.worker !== null) {
    const app = `./${release.worker.modules[0]!.name}`;
    await writeFile(
      join(directory, ENTRY),
      ENTRY_WORKER.replaceAll("'cellar-app-entry'", JSON.stringify(app)),
    );
  }
  const text = `using Workerd = import "/workerd/workerd.capnp";\nconst config :Workerd.Config = ${capnp(config)};\n`;
  await writeFile(join(directory, CELL_CONFIG), text);
}

/**
 * Unique keys of the namespaces whose alarms are work of the app's own, and must run in time. KV's are not among
 * them: they only clear away what has expired, which can wait until the process runs for something else.
 */
export function alarmKeys({ classes }: Release): string[] {
  return classes.map(({ storageId }) => storageId);
}

async function services(release: Release, directory: string): Promise<CapnpValue[]> {
  const { worker, assets, databases, namespaces } = release;
  if (worker === null && assets === null) throw new Error('a release needs a Worker or assets');
  const list: CapnpValue[] = [
    { name: 'do', disk: { writable: true } },
    { name: 'kv', disk: { writable: true } },
    ...(worker === null ? [{ name: 'health', disk: { path: '.' } }] : []),
    // workerd's own default, stated because the host's safety hangs on it: never a private or local address.
    { name: 'internet', network: { allow: ['public'], tlsOptions: { trustBrowserCas: true } } },
  ];
  if (worker !== null) list.push({ name: 'app', worker: appWorker(release, worker) });
  if (assets !== null) list.push({ name: 'assets', assets: await assetsService(release, assets, directory) });
  if (databases.length > 0) list.push({ name: 'd1-service', worker: d1Worker() });
  if (namespaces.length > 0) list.push({ name: 'kv-service', worker: kvWorker() });
  return list;
}

function appWorker(release: Release, worker: NonNullable<Release['worker']>): Fields {
  const { compatibilityDate, compatibilityFlags } = worker;
  const redundant = compatibilityDate >= NODEJS_COMPAT_DEFAULT_DATE ? 'nodejs_compat' : null;
  return {
    modules: [{ name: ENTRY, esModule: embed(ENTRY) }, ...worker.modules.map(moduleField)],
    compatibilityDate,
    compatibilityFlags: compatibilityFlags.filter((flag) => flag !== redundant),
    bindings: [...varBindings(release), ...storageBindings(release), ...assetsBinding(release)],
    durableObjectNamespaces: release.classes.map(({ className, storageId, sql }) => ({
      className,
      uniqueKey: storageId,
      enableSql: sql,
    })),
    durableObjectStorage: { localDisk: 'do' },
    cacheApiOutbound: { name: 'app', entrypoint: 'CellarCache' },
  };
}

const MODULE_FIELDS = {
  esm: 'esModule',
  commonjs: 'commonJsModule',
  text: 'text',
  data: 'data',
  wasm: 'wasm',
  json: 'json',
} as const satisfies Record<Module['type'], string>;

function moduleField({ name, type, path }: Module): Fields {
  return { name, [MODULE_FIELDS[type]]: embed(inside(path)) };
}

function varBindings({ vars }: Release): CapnpValue[] {
  return Object.entries(vars).map(([name, value]) =>
    typeof value === 'string' ? { name, text: value } : { name, json: JSON.stringify(value) },
  );
}

function storageBindings({ durableObjects, databases, namespaces }: Release): CapnpValue[] {
  return [
    ...durableObjects.map(({ binding, className }) => ({ name: binding, durableObjectNamespace: className })),
    ...databases.map(({ binding, storageId }) => ({
      name: binding,
      wrapped: {
        moduleName: 'cloudflare-internal:d1-api',
        innerBindings: [
          {
            name: 'fetcher',
            service: { name: 'd1-service', props: { json: JSON.stringify({ database: storageId }) } },
          },
        ],
      },
    })),
    ...namespaces.map(({ binding, storageId }) => ({
      name: binding,
      kvNamespace: { name: 'kv-service', props: { json: JSON.stringify({ namespace: storageId }) } },
    })),
  ];
}

function assetsBinding({ assets }: Release): CapnpValue[] {
  if (assets === null || assets.binding === null) return [];
  return [{ name: assets.binding, service: { name: 'assets', entrypoint: 'AssetWorker' } }];
}

/** Unset fields of the service's JSON are left out; `_headers` and its like are given to it as text. */
async function assetsService(release: Release, assets: Assets, directory: string): Promise<Fields> {
  const path = inside(assets.directory);
  const ownText = (name: string) => textIfThere(join(directory, path, name));
  const config = {
    html_handling: assets.htmlHandling,
    not_found_handling: assets.notFoundHandling,
    run_worker_first: assets.runWorkerFirst,
    headers: await ownText('_headers'),
    redirects: await ownText('_redirects'),
    ignore: await ownText('.assetsignore'),
  };
  return {
    path,
    config: JSON.stringify(config),
    ...(release.worker === null ? { compatibilityDate: STATIC_SITE_DATE } : { userWorker: 'app' }),
  };
}

async function textIfThere(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** workerd's bundled D1. Class name and unique key say where the databases lie: changing one starts them empty. */
function d1Worker(): Fields {
  return bundledWorker('d1.js', 'D1Database', [{ name: 'DATABASE', durableObjectNamespace: 'D1Database' }]);
}

/** workerd's bundled KV, with the same caution. */
function kvWorker(): Fields {
  return bundledWorker('kv.js', 'KVNamespace', [
    { name: 'SHARD', durableObjectNamespace: 'KVNamespace' },
    { name: 'BLOBS', service: 'kv' },
  ]);
}

function bundledWorker(module: string, className: string, bindings: CapnpValue[]): Fields {
  return {
    modules: [{ name: module, bundled: `/workerd/${module}` }],
    compatibilityDate: SERVICE_DATE,
    bindings,
    durableObjectNamespaces: [{ className, uniqueKey: className, enableSql: true }],
    durableObjectStorage: { localDisk: 'do' },
  };
}

function inside(path: string): string {
  const clean = normalize(path);
  if (isAbsolute(clean) || clean === '..' || clean.startsWith('../')) {
    throw new Error(`${path} lies outside the release's directory`);
  }
  return clean;
}
