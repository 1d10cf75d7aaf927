// Writes the files that workerd is started with. It runs in a thread: a release's description is as large as a push made it.
import { statSync } from 'node:fs';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { assetRules } from '../../../bundler/project/assets.ts';
import { type Module, RELEASE_FILE, type Release } from '../../../bundler/release.ts';
import { publish } from '../../disk/publish.ts';
import { mayUseCaches } from '../config/cache.ts';
import { alarmKeys, cellConfig, socketsOf } from '../config/cell-config.ts';
import {
  CALLED,
  CALLED_WORKER,
  CAPTURE,
  CAPTURE_WORKER,
  D1,
  D1_WORKER,
  ENTRY,
  ERROR_REPORTER,
  ERROR_REPORTER_WORKER,
  EVENTS,
  EVENTS_WORKER,
  entryModule,
  PAGE,
  pageModule,
  RELOAD,
  RELOAD_WORKER,
  STATEMENTS,
  STATEMENTS_WORKER,
  STEPS,
  STEPS_WORKER,
  WORKERS,
  WORKERS_MODULE,
  withWorkers,
} from '../config/entry.ts';
import {
  mayImportEmail,
  type OutwardService,
  type OutwardSockets,
  outwardServicesOf,
} from '../config/outward.ts';
import { CAPNWEB, CAPNWEB_MODULE, callsOf, mayHaveMethods, queuesElsewhere } from '../config/services.ts';
import { workflowKey } from '../config/workflows.ts';
import type { Calls } from './service-access.ts';

export const CONFIG = 'cell.capnp';
export const TRIAL_CONFIG = 'trial.capnp';
export const LAUNCH = 'launch.json';
/** A socket path where nothing ever listens: a release that is only tried must not reach the services of the host. */
export const NO_SOCKET = '/dev/null/none';

/** Names of modules that may be written beside what is Cellar's own. */
const CHANGED_NAME = /^(?!cellar-)[\w.-]+\.m?js$/;

/** Longest source map that a process is given for its pages. */
const MAP_BYTES = 8 * 2 ** 20;
/** Most bytes of what a launch needs to know, which the gateway's thread reads. */
const LAUNCH_BYTES = 512 * 1024;

/** What a launch needs to know of a release. It is kept with the files. */
export interface Launch {
  databases: Release['databases'];
  /** Whether it has buckets, which the host's bucket service keeps. */
  hasBuckets: boolean;
  /** Whether there is a Worker: it is tried with a config of its own, and has exports that other apps may call. */
  hasWorker: boolean;
  /** The services for what lies outside that it may ask. */
  outwardServices: OutwardService[];
  /** Whether it has a disk for the Cache API. */
  hasCache: boolean;
  /** Names of the sockets of its process. */
  sockets: string[];
  calls: Calls;
  due: DueWork;
  /** CPU time that the app may compute for, in ms; null where the project does not say. */
  cpuMs: number | null;
}

/** The parts of a release that have work to do by themselves. */
export interface DueWork {
  /** Of namespaces with alarms: of classes that are gone none could run. */
  keys: string[];
  crons: string[];
  /** Workflows, by binding, with the key of the namespace of their instances. */
  workflows: { binding: string; key: string }[];
}

/** Where the files come from and go to, and what they depend on. */
export interface CellFilesOrder {
  /** The release's directory. */
  release: string;
  /** That of the files. It is there when all of them are. */
  directory: string;
  heapMb: number;
  /** Names of the secrets that the process has in its environment. */
  secrets: string[];
  /** Where the bucket service answers the app. */
  bucketSocket: string;
  /** Where the host takes the app's calls of other apps. */
  serviceSocket: string;
  /** Where each service for what lies outside answers the app, if there is one. */
  outwardSockets: OutwardSockets;
  /** Private addresses and CIDR ranges that the app may reach. */
  egress: readonly string[];
  /** Where the control UI is, as browsers are told that meet an error of the app; null: they are told nothing. */
  uiUrl: string | null;
  /** Whether pages in browsers load again when the app has changed. */
  reloads: boolean;
  /** MiB of responses that the Cache API may keep; 0: none. */
  cacheMb: number;
}

/** @throws {Error} when the description is missing, names a path outside of the release, or has too much for a launch */
export async function writeCellFiles(order: CellFilesOrder): Promise<void> {
  const { directory, heapMb, secrets, bucketSocket, serviceSocket, outwardSockets, egress, uiUrl, reloads } =
    order;
  const release = JSON.parse(await readFile(join(order.release, RELEASE_FILE), 'utf8')) as Release;
  const beside = `${directory}.new`;
  await rm(beside, { recursive: true, force: true });
  await mkdir(beside, { recursive: true, mode: 0o700 });
  const write = (name: string, text: string) => writeFile(join(beside, name), text, { mode: 0o600 });
  const { worker, assets, databases, buckets = [], triggers, workflows = [] } = release;
  // A release of an older Cellar has them in the directory alone, not in its description.
  const rules = assets === null ? {} : (assets.rules ?? assetRules(join(order.release, assets.directory)));
  const pageMaps = uiUrl === null || worker === null ? null : mapsOf(order.release, worker.modules);
  const texts = await moduleTexts(order.release, worker?.modules ?? []);
  const changed = changedModules(texts);
  const cacheMb = [...texts.values()].some(mayUseCaches) ? order.cacheMb : 0;
  const hasMethods = [...texts.values()].some(mayHaveMethods);
  const importsEmail = [...texts.values()].some(mayImportEmail);
  const options = {
    ...{ toRelease: relative(directory, order.release), rules, secrets, pageMaps, heapMb, reloads },
    changedModules: [...changed.keys()],
    egress,
    hasMethods,
    importsEmail,
  };
  const hasBuckets = buckets.length > 0;
  const outwardServices = outwardServicesOf(release, outwardSockets);
  const calls = { services: callsOf(release), queues: queuesElsewhere(release) };
  const callsServices = calls.services.length > 0;
  const due = {
    keys: alarmKeys(release),
    crons: triggers?.crons ?? [],
    workflows: workflows.map(({ binding, name }) => ({ binding, key: workflowKey(name) })),
  };
  const launch = JSON.stringify({
    databases,
    hasBuckets,
    outwardServices,
    hasWorker: worker !== null,
    sockets: socketsOf(release),
    hasCache: cacheMb > 0,
    calls,
    due,
    cpuMs: release.cpuMs ?? null,
  } satisfies Launch);
  if (launch.length > LAUNCH_BYTES)
    throw new Error(
      `the names of its classes, D1 migrations, service bindings, cron triggers and Workflows have ${launch.length} bytes, more than ${LAUNCH_BYTES}`,
    );
  const sockets = { bucketSocket, serviceSocket, outwardSockets };
  const noSockets = {
    bucketSocket: NO_SOCKET,
    serviceSocket: NO_SOCKET,
    outwardSockets: Object.fromEntries(outwardServices.map((type) => [type, NO_SOCKET])),
  };
  await write(CONFIG, cellConfig(release, { ...options, ...sockets, cacheMb, isTrial: false }));
  if (worker !== null)
    await write(TRIAL_CONFIG, cellConfig(release, { ...options, ...noSockets, cacheMb: 0, isTrial: true }));
  if (hasMethods || callsServices) await write(CAPNWEB, CAPNWEB_MODULE);
  if (worker !== null) {
    await write(ENTRY, entryModule(worker, release, uiUrl !== null));
    await write(CAPTURE, CAPTURE_WORKER);
    await write(ERROR_REPORTER, ERROR_REPORTER_WORKER);
    await write(EVENTS, EVENTS_WORKER);
    await write(CALLED, CALLED_WORKER);
    if (changed.size > 0) await write(WORKERS, WORKERS_MODULE);
    for (const [name, text] of changed) await write(name, text);
    if (workflows.length > 0) await write(STEPS, STEPS_WORKER);
    if (uiUrl !== null) await write(PAGE, pageModule(uiUrl));
  }
  if (databases.length > 0) {
    await write(D1, D1_WORKER);
    await write(STATEMENTS, STATEMENTS_WORKER);
  }
  if (reloads) await write(RELOAD, RELOAD_WORKER);
  await write(LAUNCH, launch);
  await publish(beside, directory);
}

/** The app's JavaScript modules, by name. */
async function moduleTexts(release: string, modules: Module[]): Promise<Map<string, string>> {
  const texts = new Map<string, string>();
  for (const { name, type, path } of modules)
    if (type === 'esm') texts.set(name, await readFile(join(release, path), 'utf8'));
  return texts;
}

/** The app's modules that import another module than in the release, by name. Those in folders are left as they are. */
function changedModules(texts: Map<string, string>): Map<string, string> {
  const changed = new Map<string, string>();
  for (const [name, text] of texts) {
    const replaced = CHANGED_NAME.test(name) ? withWorkers(text) : null;
    if (replaced !== null) changed.set(name, replaced);
  }
  return changed;
}

/** The modules that have a source map which a process may keep. */
function mapsOf(release: string, modules: Module[]): Module[] {
  return modules.filter(({ path }) => {
    const map = statSync(join(release, `${path}.map`), { throwIfNoEntry: false });
    return map?.isFile() === true && map.size <= MAP_BYTES;
  });
}
