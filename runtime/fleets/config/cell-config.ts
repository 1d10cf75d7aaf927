// Makes the config of a cell (an app's workerd process) from its release. The config is made at a launch, not at the deploy,
// so that old releases get the features of this version of Cellar.
import { isAbsolute, join, normalize } from 'node:path';
import { dividedSecrets } from '../../../bundler/bindings/secrets.ts';
import type { AssetRules, Assets, Module, Release, Triggers } from '../../../bundler/release.ts';
import { uuidOf } from '../../../handlers/contract/id.ts';
import { imageText } from '../../containers/image-reference.ts';
import { CF_HEADER, PROTO_HEADER } from '../../edge/http/head/service-headers.ts';
import { QUEUE_ENTRYPOINT, QUEUE_KEY, queueWorker } from './bundled-services.ts';
import { CACHE_SERVICE, cacheServices } from './cache.ts';
import { type CapnpValue, configText, embed, type Fields } from './capnp.ts';
import { type ClusterSettings, clusterField } from './cluster/cluster.ts';
import { LOAD_SOCKET, loadService } from './cluster/load-service.ts';
import { cronServices } from './crons/crons.ts';
import {
  dispatchBindingsOf,
  dispatchModules,
  dispatchServices,
  OUTBOUND_SERVICE,
  outboundService,
} from './dispatch/dispatch.ts';
import { RELOAD } from './entry.ts';
import { heapFlags } from './heap.ts';
import { mtlsBindings, mtlsServices } from './mtls/mtls.ts';
import { internetService } from './network.ts';
import { type HostServiceSockets, outwardBindings, outwardModules, outwardServices } from './outward.ts';
import { PIPELINE_KEY, pipelineBindings, pipelineServices, pipelinesOf } from './pipelines/pipelines.ts';
import { rateLimitBindings, rateLimitModules } from './rate-limits.ts';
import { secretBindings } from './secret-bindings.ts';
import {
  deadLetterBindings,
  KNOWS_EXPORTS,
  queueService,
  queuesElsewhere,
  serviceBindingsOf,
  serviceModules,
  serviceServices,
} from './services.ts';
import { mainService, siteBindings, siteOf, siteServices } from './site/site.ts';
import { storageBindings, storageServices } from './storage.ts';
import {
  storeSecretBindingsOf,
  storeSecretModules,
  storeSecretServices,
} from './store-secrets/store-secrets.ts';
import { tailsField, tailsServices, tailsSockets } from './tails/tails.ts';
import { triedWorker } from './trial-entry.ts';
import { workflowBindings, workflowEngine, workflowKey, workflowsOf } from './workflows.ts';

/** The socket where the host runs the owner's SQL. Only for a release with databases. */
export const DATABASE_SOCKET = 'd1';
/** The socket where other apps send messages to the app's queues. Only for a release that consumes queues. */
export const QUEUE_SOCKET = 'queues';
/**
 * Compatibility date for the assets of a site without a Worker, because such a site sets no date. Also that of the Worker
 * that adds `RELOAD`.
 */
const STATIC_SITE_DATE = '2026-01-01';
/** From this date workerd implies `nodejs_compat`, and warns if a config sets this flag too. */
const NODEJS_COMPAT_DEFAULT_DATE = '2026-08-04';
/** From this date Workers know their own exports (`ctx.exports`) without a flag. */
const KNOWS_EXPORTS_DATE = '2025-11-17';
/** Compatibility flag: gives Workers `AsyncLocalStorage`, which Cellar's entry module needs at any date. */
const ASYNC_CONTEXT = 'nodejs_als';

/** Inputs of the config besides the release. */
export interface ConfigOptions {
  /** Path of a PEM file with the operator's own certificate authorities; null: none. */
  authorities: string | null;
  /** The config's directory. */
  directory: string;
  /** Relative path from the config's directory to the release's directory. */
  toRelease: string;
  /** Rules from the assets' own files, such as `_headers`. */
  rules: AssetRules;
  /** Limit of the JavaScript heap, in MiB. V8 ends a process that exceeds it. */
  heapMb: number;
  /** Names of the secrets in the process's environment. */
  secrets: string[];
  /** JSON values that override the Worker's variables, or add to them. */
  vars: Record<string, unknown>;
  /** Whether this is a trial: a start on temporary storage that only checks the Worker. No cron calls a Worker on trial. */
  isTrial: boolean;
  /** Names of the app's modules with a changed copy beside the config. All other modules are read from the release. */
  changedModules: string[];
  /** Names of Cellar's modules around the Worker, which lie beside the config. The first is Cellar's entry module. */
  entryModules: string[];
  /** The modules whose texts and source maps the error page reads. */
  pageMaps: Module[];
  /** Whether browsers reload pages when the app has changed. */
  reloads: boolean;
  /** This app's own socket of the host's bucket service. Nothing listens there for a trial. */
  bucketSocket: string;
  /** The socket where the host accepts this app's calls to other apps. Nothing listens there for a trial. */
  serviceSocket: string;
  /** Whether the app's outgoing requests go to an outbound Worker. */
  hasOutbound: boolean;
  /** Whether `fetch()` transforms images. */
  fetchesImages: boolean;
  /** Whether other apps may call methods of the Worker's exports. */
  hasMethods: boolean;
  /** Whether crons may have a field for seconds. */
  cronSeconds: boolean;
  /** Limit of the Cache API, in MiB; 0: no cache. */
  cacheMb: number;
  /** This app's own sockets of the host's running services, except R2's. Nothing listens there for a trial. */
  hostServiceSockets: HostServiceSockets;
  /** Whether modules import `cloudflare:email`. */
  importsEmail: boolean;
  /** Private addresses and CIDR ranges that the app may reach. */
  egress: readonly string[];
  /** The app's cluster, which keeps its data in the bucket; null for an app that keeps it on this machine. */
  cluster: ClusterSettings | null;
}

/**
 * Returns the text of a release's config. workerd must run in the release's directory. Socket `http` serves the app. Socket
 * `health` is for the host: a GET runs none of the app's code, and with a Worker returns the number of pending tasks (see
 * `CellarState`). The paths of the disks are given at the start: `do` (Durable Objects, D1, KV's index), `kv` (KV's large
 * values) and `cache` (the Cache API).
 * @throws {Error} naming the path when a module or the assets lie outside the release's directory
 */
export function cellConfig(release: Release, options: ConfigOptions): string {
  const extensions = [
    ...rateLimitModules(release),
    ...serviceModules(release),
    ...dispatchModules(release),
    ...storeSecretModules(release),
    ...outwardModules(release, options.importsEmail),
  ];
  const config: Fields = {
    structuredLogging: true,
    ...clusterField(options.cluster),
    v8Flags: heapFlags(options.heapMb),
    services: services(release, options),
    ...(extensions.length > 0 && { extensions: [{ modules: extensions }] }),
    sockets: [
      {
        name: 'http',
        // The gateway writes `PROTO_HEADER`, so that the Worker sees an https URL behind TLS. workerd removes this header,
        // so it cannot be X-Forwarded-Proto, which apps read. Without `CF_HEADER`, workerd would put the process id and user
        // of the socket's peer into `request.cf`.
        http: { forwardedProtoHeader: PROTO_HEADER, cfBlobHeader: CF_HEADER },
        service: options.reloads ? 'reload' : mainService(release),
      },
      {
        name: 'health',
        // Other apps' calls of the Worker's exports arrive at this socket too, so they need the same headers.
        http: { forwardedProtoHeader: PROTO_HEADER, cfBlobHeader: CF_HEADER },
        service: release.worker === null ? 'health' : { name: 'app', entrypoint: 'CellarState' },
      },
      ...(options.isTrial ? [] : storageSockets(release)),
      ...(options.isTrial ? [] : tailsSockets(release)),
      ...(options.cluster === null ? [] : [{ name: LOAD_SOCKET, http: {}, service: 'load' }]),
    ],
  };
  return configText(config);
}

/**
 * Returns the unique keys of the namespaces whose alarms must run in time, even if a process must be started for them. For
 * crons, see `cronKeys`. KV is left out, because its alarms only remove expired entries, which can wait.
 */
export function alarmKeys(release: Release): string[] {
  const { classes, triggers, workflows = [] } = release;
  const keys = [
    ...classes.map(({ storageId }) => storageId),
    ...workflows.map(({ name }) => workflowKey(name)),
    ...(pipelinesOf(release).length > 0 ? [PIPELINE_KEY] : []),
  ];
  return triggers && usesQueues(triggers) ? [...keys, QUEUE_KEY] : keys;
}

/** Returns the Worker that receives requests before the app, and adds the reload script to its pages. */
function reloadWorker(release: Release): Fields {
  return {
    modules: [{ name: RELOAD.name, esModule: embed(RELOAD.name) }],
    compatibilityDate: STATIC_SITE_DATE,
    bindings: [{ name: 'APP', service: mainService(release) }],
  };
}

/** Returns the names of the sockets of a release's process. */
export function socketsOf(release: Release, isClustered: boolean): string[] {
  const { triggers, databases } = release;
  return [
    'http',
    'health',
    ...(databases.length > 0 ? [DATABASE_SOCKET] : []),
    ...(triggers && usesQueues(triggers) ? [QUEUE_SOCKET] : []),
    ...tailsSockets(release).map(({ name }) => String(name)),
    ...(isClustered ? [LOAD_SOCKET] : []),
  ];
}

/** Returns the sockets that lead directly to the app's D1 and queue services, past its code. */
function storageSockets(release: Release): CapnpValue[] {
  const sockets = socketsOf(release, false);
  const socket = (name: string, service: string, entrypoint: string) =>
    sockets.includes(name) ? [{ name, http: {}, service: { name: service, entrypoint } }] : [];
  return [
    ...socket(DATABASE_SOCKET, 'd1-service', 'HostDatabases'),
    ...socket(QUEUE_SOCKET, 'queue-service', QUEUE_ENTRYPOINT),
  ];
}

function usesQueues({ consumers }: Triggers): boolean {
  return consumers.length > 0;
}

function services(release: Release, options: ConfigOptions): CapnpValue[] {
  const { isTrial } = options;
  const { worker, assets, triggers, workflows = [] } = release;
  if (worker === null && assets === null) throw new Error('a release needs a Worker or assets');
  const list: CapnpValue[] = [
    { name: 'do', disk: { writable: true } },
    { name: 'kv', disk: { writable: true } },
    ...(worker === null ? [{ name: 'health', disk: { path: '.' } }] : []),
    internetService(options.egress),
  ];
  if (worker !== null) {
    const app = appWorker(release, worker, options);
    const tailed = { ...app, ...tailsField(release) };
    list.push({ name: 'app', worker: isTrial ? triedWorker(app, release) : tailed });
    if (!isTrial) list.push(...tailsServices(release, options.serviceSocket));
    if (workflows.length > 0) list.push(workflowEngine(workflows, 'app', worker));
  }
  if (assets !== null && siteOf(release) === null)
    list.push({ name: 'assets', assets: assetsService(release, assets, options) });
  list.push(...siteServices(release, options.toRelease));
  if (options.reloads) list.push({ name: 'reload', worker: reloadWorker(release) });
  list.push(
    ...storageServices(
      release,
      options.bucketSocket,
      options.hostServiceSockets.vectors,
      options.cluster !== null,
    ),
  );
  list.push(...serviceServices(release, options.serviceSocket));
  list.push(...dispatchServices(release, options.serviceSocket));
  if (options.hasOutbound) list.push(outboundService(options.serviceSocket));
  list.push(...storeSecretServices(release, options.serviceSocket), ...mtlsServices(release, options));
  list.push(...cacheServices(options.cacheMb, options.cluster !== null));
  if (options.cluster !== null) list.push(loadService(release));
  list.push(...outwardServices(release, options.hostServiceSockets, options.fetchesImages));
  list.push(...pipelineServices(release));
  if (triggers && usesQueues(triggers)) {
    list.push({
      name: 'queue-service',
      worker: queueWorker(triggers.consumers, 'app', deadLetterBindings(release)),
    });
  }
  if (triggers && triggers.crons.length > 0) {
    list.push(...cronServices(triggers.crons, isTrial ? 'do' : 'app', options.cronSeconds));
  }
  return list;
}

function appWorker(
  release: Release,
  worker: NonNullable<Release['worker']>,
  {
    toRelease,
    secrets,
    vars,
    pageMaps,
    entryModules,
    changedModules,
    hasMethods,
    hasOutbound,
    fetchesImages,
    cacheMb,
    hostServiceSockets,
  }: ConfigOptions,
): Fields {
  const { compatibilityDate, compatibilityFlags } = worker;
  const { given } = dividedSecrets(release, secrets);
  const redundant = compatibilityDate >= NODEJS_COMPAT_DEFAULT_DATE ? 'nodejs_compat' : null;
  const without = [redundant, ASYNC_CONTEXT, `no_${ASYNC_CONTEXT}`];
  const flags = compatibilityFlags.filter((flag) => !without.includes(flag));
  const isCalled =
    (hasMethods || release.classes.length > 0 || (release.exports ?? []).length > 1) &&
    compatibilityDate < KNOWS_EXPORTS_DATE;
  return {
    modules: [
      ...entryModules.map((name) => ({ name, esModule: embed(name) })),
      ...pageMaps.flatMap((map) => pageFiles(map, toRelease)),
      ...worker.modules.map((each) =>
        changedModules.includes(each.name)
          ? { name: each.name, esModule: embed(each.name) }
          : moduleField(each, toRelease),
      ),
    ],
    compatibilityDate,
    compatibilityFlags: [...new Set([...flags, ASYNC_CONTEXT, ...(isCalled ? [KNOWS_EXPORTS] : [])])],
    bindings: [
      ...varBindings(release, vars, given),
      ...secretBindings(given, secrets),
      ...storageBindings(release),
      ...siteBindings(release),
      ...queueBindings(release),
      ...assetsBinding(release),
      ...workflowBindings(release.workflows ?? []),
      ...rateLimitBindings(release),
      ...serviceBindingsOf(release),
      ...dispatchBindingsOf(release),
      ...storeSecretBindingsOf(release),
      ...mtlsBindings(release),
      ...outwardBindings(release, secrets, fetchesImages),
      ...pipelineBindings(release),
      ...versionBinding(release),
      ...loaderBindings(release),
    ],
    durableObjectNamespaces: release.classes.map(({ className, storageId, sql }) => ({
      className,
      uniqueKey: storageId,
      enableSql: sql,
      ...containerOf(release, className, hostServiceSockets.containers),
    })),
    ...containerEngine(release, hostServiceSockets.containers),
    durableObjectStorage: { localDisk: 'do' },
    ...workflowsOf(release.workflows ?? []),
    ...(hasOutbound && { globalOutbound: OUTBOUND_SERVICE }),
    cacheApiOutbound: cacheMb === 0 ? { name: 'app', entrypoint: 'CellarCache' } : CACHE_SERVICE,
  };
}

function pageFiles({ name, path }: Module, toRelease: string): CapnpValue[] {
  return [
    { name: `${name}.map`, text: embed(join(toRelease, inside(`${path}.map`))) },
    { name: `${name}.text`, text: embed(join(toRelease, inside(path))) },
  ];
}

const MODULE_FIELDS = {
  esm: 'esModule',
  commonjs: 'commonJsModule',
  text: 'text',
  data: 'data',
  wasm: 'wasm',
  json: 'json',
} as const satisfies Record<Module['type'], string>;

function moduleField({ name, type, path }: Module, toRelease: string): Fields {
  return { name, [MODULE_FIELDS[type]]: embed(join(toRelease, inside(path))) };
}

function varBindings(release: Release, overrides: Record<string, unknown>, secrets: string[]): CapnpValue[] {
  const { given } = dividedSecrets(release, Object.keys(overrides));
  const vars = { ...release.vars, ...Object.fromEntries(given.map((name) => [name, overrides[name]])) };
  return Object.entries(vars)
    .filter(([name]) => !secrets.includes(name))
    .map(([name, value]) =>
      typeof value === 'string' ? { name, text: value } : { name, json: JSON.stringify(value) },
    );
}

function queueBindings(release: Release): CapnpValue[] {
  const sent = queuesElsewhere(release);
  return (release.triggers?.producers ?? []).map(({ binding, queue }) => ({
    name: binding,
    queue: sent.includes(queue)
      ? queueService(sent.indexOf(queue))
      : { name: 'queue-service', props: { json: JSON.stringify({ queue }) } },
  }));
}

function assetsBinding({ assets }: Release): CapnpValue[] {
  if (assets === null || assets.binding === null) return [];
  return [{ name: assets.binding, service: { name: 'assets', entrypoint: 'AssetWorker' } }];
}

function versionBinding({ deployId, versionMetadata }: Release): CapnpValue[] {
  if (versionMetadata === undefined) return [];
  const { binding, tag, id = deployId, timestamp } = versionMetadata;
  return [{ name: binding, json: JSON.stringify({ id: uuidOf(id), tag, timestamp }) }];
}

/** Returns workerd's bindings that load Workers. They have no `id`, so that no other binding shares the loaded Workers. */
function loaderBindings({ workerLoaders = [] }: Release): CapnpValue[] {
  return workerLoaders.map(({ binding }) => ({ name: binding, workerLoader: {} }));
}

/** Returns a class's field `container`. Without the socket of the container service, classes have no `ctx.container`. */
function containerOf({ containers = [] }: Release, className: string, socket: string | undefined): Fields {
  const found = socket === undefined ? undefined : containers.find((each) => each.className === className);
  return found === undefined ? {} : { container: { imageName: imageText(found) } };
}

/**
 * Returns the Worker's field `containerEngine`. The container service has the part of Docker's API that workerd uses. It
 * runs no egress proxy, so the name of the proxy's image has no effect.
 */
function containerEngine({ containers = [] }: Release, socket: string | undefined): Fields {
  if (containers.length === 0 || socket === undefined) return {};
  return {
    containerEngine: {
      localDocker: { socketPath: `unix:${socket}`, containerEgressInterceptorImage: 'cellar' },
    },
  };
}

/** `path` is relative to the release's directory, where workerd runs. `config` is JSON without the unset fields. */
function assetsService(release: Release, assets: Assets, { rules }: ConfigOptions): Fields {
  const config = {
    html_handling: assets.htmlHandling,
    not_found_handling: assets.notFoundHandling,
    run_worker_first: assets.runWorkerFirst,
    base_path: assets.basePath,
    ...rules,
  };
  return {
    path: inside(assets.directory),
    config: JSON.stringify(config),
    ...(release.worker === null ? { compatibilityDate: STATIC_SITE_DATE } : { userWorker: 'app' }),
  };
}

function inside(path: string): string {
  const clean = normalize(path);
  if (isAbsolute(clean) || clean === '..' || clean.startsWith('../')) {
    throw new Error(`${path} lies outside the release's directory`);
  }
  return clean;
}
