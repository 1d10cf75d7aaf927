// The workerd config of the control plane's process. Changing a unique key or a disk loses access to existing data.
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { writeAtomic } from '../disk/data-directory.ts';
import { d1Binding, d1Worker, kvWorker } from '../fleets/config/bundled-services.ts';
import { configText, embed, type Fields } from '../fleets/config/capnp.ts';
import {
  type ClusterSettings,
  clusterField,
  LARGE_VALUES_SERVICE,
} from '../fleets/config/cluster/cluster.ts';
import { socketPath } from '../fleets/process/cell-directories.ts';
import { objectId } from '../storage/object-id.ts';

const DATE = '2026-10-01';
/** The unique key of the namespace of the control plane's D1 database. */
const D1_KEY = 'miniflare-D1DatabaseObject';
const SIGN_IN_KEY = 'D1Database';

/** The control plane's name in the bucket, beside the ids of apps. */
export const CONTROL = 'control';
/** Name of the bundled handlers' file, in the directory of the config. */
export const WORKER = 'worker.js';
/** Name of the config's file. */
export const CONFIG = 'control.capnp';

/** Sockets: the API, the control UI's database, and the control plane's own database for the host. */
export const SOCKETS = ['http', 'sign-in', 'database'];

export interface ControlDatabase {
  name: string;
  /** Path of its file, relative to the directory of workerd's disks. */
  file: string;
  /** Name of the socket that runs its queries. */
  socket: string;
}

export const DATABASES: ControlDatabase[] = [
  { name: 'control', socket: 'database', file: `d1/${D1_KEY}/${objectId(D1_KEY, 'control')}.sqlite` },
  {
    name: 'sign-in',
    socket: 'sign-in',
    file: `sign-in/${SIGN_IN_KEY}/${objectId(SIGN_IN_KEY, 'sign-in')}.sqlite`,
  },
];

/** The id of the Durable Object that has the reports of all hosts. */
export const HOSTS_OBJECT = objectId('control-HostsObject', 'hosts');

/** Returns the path of the API's socket. Only the host may have access to the directory. */
export function controlSocket(directory: string): string {
  return socketPath(directory, 'http');
}

/** Returns the path of the socket of the control UI's database. */
export function signInSocket(directory: string): string {
  return socketPath(directory, 'sign-in');
}

/**
 * Returns the paths of the process's disks, by name.
 * @param isClustered whether the data is in the bucket. Then other disks are used: workerd refuses those with local data
 */
export function controlDisks(directory: string, isClustered: boolean): Record<string, string> {
  const root = isClustered ? clusterDirectory(directory) : directory;
  return Object.fromEntries(['d1', 'do', 'kv', 'sign-in'].map((name) => [name, join(root, name)]));
}

/** Returns the directory with the cache of data that is in the bucket. */
export function clusterDirectory(directory: string): string {
  return join(directory, 'cluster');
}

/** Whether the data of the control plane is in the bucket. */
export function isInBucket(directory: string): boolean {
  return existsSync(markerOf(directory));
}

/** Records that the data is in the bucket. */
export function markInBucket(directory: string): void {
  if (!isInBucket(directory)) writeAtomic(markerOf(directory), '');
}

function markerOf(directory: string): string {
  return join(directory, 'in-bucket');
}

export interface ControlConfig {
  /** Names of the text bindings, whose values are in the process's environment. */
  variables: string[];
  /** Path of the HOST binding's socket. */
  hostSocket: string;
  /** Where the data is in the bucket; null: it is on this machine. */
  cluster: ClusterSettings | null;
}

/** Returns the text of the config, a file beside the Worker. The process can reach only the host. */
export function controlConfig({ variables, hostSocket, cluster }: ControlConfig): string {
  const database = { name: 'd1-service', props: { json: '{"database":"control"}' } };
  const signIn = { name: 'sign-in-service', props: { json: '{"database":"sign-in"}' } };
  const worker: Fields = {
    modules: [{ name: WORKER, esModule: embed(WORKER) }],
    compatibilityDate: DATE,
    bindings: [
      ...variables.map((name) => ({ name, fromEnvironment: name })),
      { name: 'HOST', service: 'host' },
      { name: 'APP', durableObjectNamespace: 'AppObject' },
      { name: 'HOSTS', durableObjectNamespace: 'HostsObject' },
      { name: 'FILES', kvNamespace: { name: 'kv-service', props: { json: '{"namespace":"files"}' } } },
      d1Binding('DB', database),
    ],
    durableObjectNamespaces: ['AppObject', 'HostsObject'].map((className) => ({
      className,
      uniqueKey: `control-${className}`,
      enableSql: true,
    })),
    durableObjectStorage: { localDisk: 'do' },
  };
  const isClustered = cluster !== null;
  const config: Fields = {
    structuredLogging: true,
    ...clusterField(cluster),
    services: [
      ...Object.keys(controlDisks('', isClustered)).map((name) => ({ name, disk: { writable: true } })),
      { name: 'host', external: { address: `unix:${hostSocket}`, http: {} } },
      { name: 'internet', network: { allow: [] } },
      { name: 'kv-service', worker: kvWorker(isClustered) },
      ...(isClustered ? [LARGE_VALUES_SERVICE] : []),
      { name: 'd1-service', worker: databases('d1', D1_KEY) },
      { name: 'sign-in-service', worker: databases('sign-in', SIGN_IN_KEY) },
      { name: 'control', worker },
    ],
    sockets: [
      { name: 'http', http: {}, service: 'control' },
      { name: 'sign-in', http: {}, service: signIn },
      { name: 'database', http: {}, service: database },
    ],
  };
  return configText(config);
}

function databases(disk: string, uniqueKey: string): Fields {
  return {
    ...d1Worker(),
    durableObjectNamespaces: [{ className: 'D1Database', uniqueKey, enableSql: true }],
    durableObjectStorage: { localDisk: disk },
  };
}
