// A release as workerd's text config. Everything in it is relative to the release's directory, where workerd is
// started; storage and sockets are named on its command line. So the file is written once and may be moved.
import { readFileSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { isAbsolute, join, normalize } from 'node:path';
import type { Assets, Module, Release, Triggers } from '../../../bundler/release.ts';
import { cronWorker, d1Worker, kvWorker, QUEUE_KEY, queueWorker } from './bundled-services.ts';
import { type CapnpValue, capnp, embed, type Fields } from './capnp.ts';
import { internetService } from './network.ts';
import { triedWorker } from './trial-entry.ts';

/** The config's name in a release's directory. */
export const CELL_CONFIG = 'cell.capnp';
/** The name of the one that a release is tried with, if it has crons or queues. */
export const TRIAL_CONFIG = 'trial.capnp';

/** The module that a Worker is entered by, beside its own. */
const ENTRY = 'cellar-entry.js';
const ENTRY_WORKER = readFileSync(new URL('./entry-worker.js', import.meta.url), 'utf8');

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
  if (release.worker !== null) {
    const app = `./${release.worker.modules[0]!.name}`;
    await writeFile(
      join(directory, ENTRY),
      ENTRY_WORKER.replaceAll("'cellar-app-entry'", JSON.stringify(app)),
    );
  }
  await writeConfig(join(directory, CELL_CONFIG), release, await services(release, directory));
  if (release.triggers === undefined) return;
  await writeConfig(join(directory, TRIAL_CONFIG), release, await services(release, directory, true));
}

async function writeConfig(path: string, release: Release, services: CapnpValue[]): Promise<void> {
  const config: Fields = {
    structuredLogging: true,
    services,
    sockets: [
      {
        name: 'http',
        // Written by the gateway: behind TLS the Worker sees an https URL. workerd takes the header out, so it
        // is not X-Forwarded-Proto, which apps read too. Without the second one workerd would make `request.cf` of
        // who is at the other end of the socket: this process's pid and user.
        http: { forwardedProtoHeader: 'X-Cellar-Proto', cfBlobHeader: 'X-Cellar-Cf' },
        service: release.assets === null ? 'app' : 'assets',
      },
      {
        name: 'health',
        http: {},
        service: release.worker === null ? 'health' : { name: 'app', entrypoint: 'CellarState' },
      },
    ],
  };
  const text = `using Workerd = import "/workerd/workerd.capnp";\nconst config :Workerd.Config = ${capnp(config)};\n`;
  await writeFile(path, text);
}

/**
 * Unique keys of the namespaces whose alarms are work of the app's own, and must run in time. KV's are not among
 * them: they only clear away what has expired, which can wait until the process runs for something else.
 */
export function alarmKeys({ classes, triggers }: Release): string[] {
  const keys = classes.map(({ storageId }) => storageId);
  return triggers && usesQueues(triggers) ? [...keys, QUEUE_KEY] : keys;
}

function usesQueues({ producers, consumers }: Triggers): boolean {
  return producers.length + consumers.length > 0;
}

/** @param isTrial whether the Worker is only to say which handlers it lacks; no cron calls it then */
async function services(release: Release, directory: string, isTrial = false): Promise<CapnpValue[]> {
  const { worker, assets, databases, namespaces, triggers } = release;
  if (worker === null && assets === null) throw new Error('a release needs a Worker or assets');
  const list: CapnpValue[] = [
    { name: 'do', disk: { writable: true } },
    { name: 'kv', disk: { writable: true } },
    ...(worker === null ? [{ name: 'health', disk: { path: '.' } }] : []),
    internetService(),
  ];
  if (worker !== null) {
    const app = appWorker(release, worker);
    list.push({ name: 'app', worker: isTrial ? triedWorker(app, release) : app });
  }
  if (assets !== null) list.push({ name: 'assets', assets: await assetsService(release, assets, directory) });
  if (databases.length > 0) list.push({ name: 'd1-service', worker: d1Worker() });
  if (namespaces.length > 0) list.push({ name: 'kv-service', worker: kvWorker() });
  if (triggers && usesQueues(triggers)) {
    list.push({ name: 'queue-service', worker: queueWorker(triggers.consumers, 'app') });
  }
  if (triggers && triggers.crons.length > 0) {
    list.push({ name: 'cron-service', worker: cronWorker(triggers.crons, isTrial ? 'do' : 'app') });
  }
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

function storageBindings({ durableObjects, databases, namespaces, triggers }: Release): CapnpValue[] {
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
    ...(triggers?.producers ?? []).map(({ binding, queue }) => ({
      name: binding,
      queue: { name: 'queue-service', props: { json: JSON.stringify({ queue }) } },
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

function inside(path: string): string {
  const clean = normalize(path);
  if (isAbsolute(clean) || clean === '..' || clean.startsWith('../')) {
    throw new Error(`${path} lies outside the release's directory`);
  }
  return clean;
}
