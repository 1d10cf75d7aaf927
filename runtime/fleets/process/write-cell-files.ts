// Writes the files for workerd. Runs in a thread, because a release's description can be large.
import { statSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { assetRules } from '../../../bundler/project/assets.ts';
import { type Module, RELEASE_FILE, type Release } from '../../../bundler/release.ts';
import { publish } from '../../disk/publish.ts';
import { mayUseCaches } from '../config/cache.ts';
import { alarmKeys, cellConfig, socketsOf } from '../config/cell-config.ts';
import type { ClusterSettings } from '../config/cluster/cluster.ts';
import { CRON_SECONDS, isBySecond } from '../config/crons/crons.ts';
import { D1_MODULES, entryModules, RELOAD } from '../config/entry.ts';
import { mayFetchImages } from '../config/fetched-images/fetched-images.ts';
import { type SealedKey, sealedKeys } from '../config/mtls/mtls.ts';
import {
  type HostService,
  type HostServiceSockets,
  hostServicesOf,
  mayImportEmail,
} from '../config/outward.ts';
import { CAPNWEB, calledQueues, callsOf, mayHaveMethods } from '../config/services.ts';
import type { CellModule } from '../config/texts.ts';
import { workflowKey } from '../config/workflows.ts';
import type { Calls } from './service-access.ts';
import { withWorkers } from './workers-import.ts';

export const CONFIG = 'cell.capnp';
export const TRIAL_CONFIG = 'trial.capnp';
export const LAUNCH = 'launch.json';
/** A socket path where nothing can listen, for a service that does not exist or that a trial must not reach. */
export const NO_SOCKET = '/dev/null/none';

/**
 * Names of modules that may get a rewritten copy. The copy lies beside Cellar's own files, whose names begin with `cellar-`.
 */
const CHANGED_NAME = /^(?!cellar-)[\w.-]+\.m?js$/;

/** Maximum size of a source map that error pages read, in bytes. */
const MAP_BYTES = 8 * 2 ** 20;
/** Maximum size of a `Launch` as JSON, in bytes. It is limited because the gateway's thread parses it. */
const LAUNCH_BYTES = 512 * 1024;

/** What a launch needs to know about a release. It is stored as `LAUNCH` beside the config. */
export interface Launch {
  databases: Release['databases'];
  /** Whether the release has R2 buckets, which the host's bucket service stores. */
  hasBuckets: boolean;
  /** Whether the release has a Worker. If so, it has a trial config, and exports that other apps may call. */
  hasWorker: boolean;
  /** The running services of the host that the release uses, except R2's. */
  hostServices: HostService[];
  /** Whether the process needs a disk for the Cache API. */
  hasCache: boolean;
  /** Names of the process's sockets. */
  sockets: string[];
  calls: Calls;
  /** The encrypted keys of the release's client certificates. */
  keys: SealedKey[];
  due: DueWork;
  /** CPU time limit of the app, in ms; null where the project sets none. */
  cpuMs: number | null;
}

/** The parts of a release that have work without a request. */
export interface DueWork {
  /**
   * Unique keys of the namespaces whose alarms are due work, without crons. Removed classes are left out: their alarms
   * cannot run.
   */
  keys: string[];
  crons: string[];
  /** The Workflows: each binding's name, and the unique key of the namespace with its instances. */
  workflows: { binding: string; key: string }[];
}

export interface CellFilesOrder {
  /** The release's directory. */
  release: string;
  /** The directory to create for the files. It exists only once all files are written. */
  directory: string;
  heapMb: number;
  /** Names of the secrets in the process's environment. */
  secrets: string[];
  /** JSON values that override the Worker's variables, or add to them. */
  vars: Record<string, unknown>;
  /** Whether the app's outgoing requests go to an outbound Worker. */
  hasOutbound: boolean;
  /** The app's socket of the bucket service. */
  bucketSocket: string;
  /** The socket where the host accepts the app's calls to other apps. */
  serviceSocket: string;
  /** The app's socket of each running service of the host, except R2's. */
  hostServiceSockets: HostServiceSockets;
  /** Private addresses and CIDR ranges that the app may reach. */
  egress: readonly string[];
  /** The path in `NODE_EXTRA_CA_CERTS`; null: unset. It is passed because threads have no environment. */
  authorities: string | null;
  /** The app's cluster; null for an app that keeps its data on this machine. */
  cluster: ClusterSettings | null;
  /** The control UI's address on error pages; empty: no links to it; null: no error pages. */
  uiUrl: string | null;
  /** Whether browsers reload pages when the app has changed. */
  reloads: boolean;
  /** Limit of the Cache API, in MiB; 0: no cache. */
  cacheMb: number;
  /** Whether the calls that a request waits for are timed. */
  timesCalls: boolean;
  /** Whether crons may have a field for seconds. */
  cronSeconds: boolean;
}

/**
 * Writes the files of a release into `order.directory`.
 * @throws {Error} when the description is missing, names a path outside the release, or is too large for a launch
 */
export async function writeCellFiles(order: CellFilesOrder): Promise<void> {
  const { directory, heapMb, secrets, vars, bucketSocket, serviceSocket, hostServiceSockets } = order;
  const { egress, cluster, uiUrl, reloads, timesCalls, hasOutbound, cronSeconds } = order;
  const release = JSON.parse(await readFile(join(order.release, RELEASE_FILE), 'utf8')) as Release;
  const beside = `${directory}.new`;
  await rm(beside, { recursive: true, force: true });
  await mkdir(beside, { recursive: true, mode: 0o700 });
  const write = (name: string, text: string) => writeFile(join(beside, name), text, { mode: 0o600 });
  const { worker, assets, databases, buckets = [], triggers, workflows = [] } = release;
  // The description of a release by an older Cellar lacks these rules. They are then read from its assets' files.
  const rules = assets === null ? {} : (assets.rules ?? assetRules(join(order.release, assets.directory)));
  const pageMaps = uiUrl === null || worker === null ? [] : mapsOf(order.release, worker.modules);
  const texts = await moduleTexts(order.release, worker?.modules ?? []);
  const changed = await changedModules(texts);
  const cacheMb = [...texts.values()].some(mayUseCaches) ? order.cacheMb : 0;
  const hasMethods = [...texts.values()].some(mayHaveMethods);
  const fetchesImages = [...texts.values()].some(mayFetchImages);
  const around =
    worker === null
      ? []
      : entryModules(worker, release, { changed, hasMethods, uiUrl, timesCalls, hasOutbound, fetchesImages });
  const importsEmail = [...texts.values()].some(mayImportEmail);
  const options = {
    ...{
      directory,
      toRelease: relative(directory, order.release),
      rules,
      secrets,
      vars,
      pageMaps,
      heapMb,
      reloads,
    },
    entryModules: around.map(({ name }) => name),
    changedModules: changed.map(({ name }) => name),
    egress,
    authorities: order.authorities,
    hasOutbound,
    cronSeconds,
    fetchesImages,
    hasMethods,
    importsEmail,
  };
  const hasBuckets = buckets.length > 0;
  const hostServices = hostServicesOf(release, hostServiceSockets, fetchesImages);
  const { tailConsumers: tails = [] } = release;
  const calls = {
    services: callsOf(release),
    queues: calledQueues(release),
    namespaces: release.dispatchNamespaces ?? [],
    secrets: release.storeSecrets ?? [],
    tails,
  };
  const callsServices = calls.services.length > 0;
  const crons = (triggers?.crons ?? []).filter((cron) => cronSeconds || !isBySecond(cron));
  const due = {
    keys: alarmKeys(release),
    crons,
    workflows: workflows.map(({ binding, name }) => ({ binding, key: workflowKey(name) })),
  };
  const launch = JSON.stringify({
    databases,
    hasBuckets,
    hostServices,
    hasWorker: worker !== null,
    sockets: socketsOf(release, cluster !== null),
    hasCache: cacheMb > 0 && cluster === null,
    calls,
    keys: sealedKeys(release),
    due,
    cpuMs: release.cpuMs ?? null,
  } satisfies Launch);
  const launchBytes = Buffer.byteLength(launch);
  if (launchBytes > LAUNCH_BYTES)
    throw new Error(
      `the names of its classes, D1 migrations, service bindings, cron triggers and Workflows have ${launchBytes} bytes; at most ${LAUNCH_BYTES} are allowed`,
    );
  const sockets = { bucketSocket, serviceSocket, hostServiceSockets };
  const noSockets = {
    bucketSocket: NO_SOCKET,
    serviceSocket: NO_SOCKET,
    hostServiceSockets: Object.fromEntries(hostServices.map((type) => [type, NO_SOCKET])),
  };
  // A trial of a release fails for crons with seconds where `cronSeconds` is false. A live release only loses these crons.
  const served = triggers ? { ...release, triggers: { ...triggers, crons } } : release;
  await write(CONFIG, cellConfig(served, { ...options, ...sockets, cacheMb, cluster, isTrial: false }));
  if (worker !== null)
    await write(
      TRIAL_CONFIG,
      cellConfig(release, { ...options, ...noSockets, cacheMb: 0, cluster: null, isTrial: true }),
    );
  const modules = [
    ...around,
    ...changed,
    ...(callsServices && !hasMethods ? [CAPNWEB] : []),
    ...(databases.length > 0 ? D1_MODULES : []),
    ...(crons.some(isBySecond) ? [CRON_SECONDS] : []),
    ...(reloads ? [RELOAD] : []),
  ];
  for (const { name, text } of modules) await write(name, text);
  await write(LAUNCH, launch);
  await publish(beside, directory);
}

/** Returns the texts of the app's ES modules, by name. */
async function moduleTexts(release: string, modules: Module[]): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const { name, type, path } of modules)
    if (type === 'esm') texts.set(name, await readFile(join(release, path), 'utf8'));
  return texts;
}

/** Returns the rewritten copies of the app's modules whose imports must change. Modules in folders are never rewritten. */
async function changedModules(texts: Map<string, string>): Promise<CellModule[]> {
  const changed: CellModule[] = [];
  for (const [name, text] of texts) {
    const replaced = CHANGED_NAME.test(name) ? await withWorkers(text) : null;
    if (replaced !== null) changed.push({ name, text: replaced });
  }
  return changed;
}

/** Returns the modules that have a source map of at most `MAP_BYTES`. */
function mapsOf(release: string, modules: Module[]): Module[] {
  return modules.filter(({ path }) => {
    const map = statSync(join(release, `${path}.map`), { throwIfNoEntry: false });
    return map?.isFile() === true && map.size <= MAP_BYTES;
  });
}
