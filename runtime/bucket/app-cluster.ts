// The workerd cluster of one app: its members are the app's processes, which keep the app's data in the bucket. When a
// process has ended, a host removes the process's lease. Until a lease is gone or expires, requests for the objects of its
// process fail.
import { existsSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { dirname } from 'node:path';
import { syncFile } from '../../bundler/sync.ts';
import { moveToTrash } from '../disk/trash.ts';
import { StartRefused } from '../fleets/admission/slots.ts';
import type { ClusterSettings } from '../fleets/config/cluster/cluster.ts';
import type { AlarmsRequest } from '../fleets/due/alarms.ts';
import { CUT_OFF, type Gate } from '../hosts/gate.ts';
import { log, reason } from '../log.ts';
import { isListening } from '../sockets/is-listening.ts';
import { aborted } from '../threads/aborted.ts';
import { WorkerThreads } from '../threads/worker.ts';
import type * as folder from './app-folder.ts';
import {
  each,
  folderOf,
  isRenewed,
  LEASES,
  type ListedObjects,
  type ObjectList,
  objectsFolderOf,
  openFolder,
  readIfThere,
} from './app-folder.ts';
import { appKeys } from './app-keys.ts';
import type { S3Place } from './place.ts';
import { OtherHome } from './records/app-records.ts';
import type { S3Store } from './s3-store.ts';
import type { Stored } from './store.ts';

/** Threads only for reads of apps' folders in the bucket: a slow bucket must not delay apps on the disk. */
const readers = new WorkerThreads(2);
/** A thread that only changes apps' folders in the bucket. */
const changers = new WorkerThreads(1);

export function closeFolderThreads(): void {
  readers.close();
  changers.close();
}

const FOLDER = new URL('./app-folder.ts', import.meta.url);
/** Timeout to read a folder, in ms. */
const READ_MS = 60_000;
/** Timeout to change a folder, in ms. */
const CHANGE_MS = 30 * 60_000;
/** Timeout to remove the leases of ended processes, in ms. After it, other processes wait until the leases expire (20 s). */
const LEASES_MS = 5_000;
/** Timeout of one attempt to list, read or remove leases, in ms. */
const LEASE_REQUEST_MS = 1_500;
/** Matches a lease: the address where other processes reach its process, and when it expires, in ms since 1970. */
const LEASE = /"address":"([^"]+):(\d+)","expires_ms":(\d+)/;

export interface AppClusterOptions {
  place: S3Place;
  /** The secret that all keys of apps derive from. */
  clusterKey: string;
  appId: string;
  /** Returns the address at which the app's processes reach the bucket. */
  endpoint: () => string;
  /** Resolves when the bucket has passed its checks. @throws {Error} with the reason when it has not */
  ready: () => Promise<void>;
  /** Resolves when the bucket has passed its checks and answers. @throws the signal's reason once it is aborted */
  untilUsable: (signal: AbortSignal) => Promise<void>;
  /** Whether the bucket has not answered for some seconds, or has failed its checks. */
  isAway: () => boolean;
  /** The directory of the app's restored data that is not in the bucket yet. */
  importing: string;
  /** Whether another host has taken the app. Left out: never. */
  isElsewhere?: () => Promise<boolean>;
  /** Left out in a Cellar of one host. */
  hosts?: ClusterHosts | undefined;
  warn: (words: string) => void;
}

/** How the cluster spans several hosts. */
export interface ClusterHosts {
  /** The IP address of this host. Leases with another address are of other hosts. */
  host: string;
  /** The port where other hosts reach this host's process. Default: any free port, for apps with processes on one host. */
  port?: number;
  /** Shut while this host is cut off from the others and may not run the app. Left out: never shut. */
  gate?: Gate;
}

export class AppCluster {
  readonly settings: ClusterSettings;
  readonly #options: AppClusterOptions;
  readonly #keys: ReturnType<typeof appKeys>;
  /** The removal of leases that runs, or succeeded after the latest start or end of a process; null without one. */
  #leasesGone: Promise<void> | null = null;
  /** Number of the app's processes on this host that have begun and not ended. */
  #processes = 0;
  /** Aborted while the app leaves for another host. */
  #leaving = new AbortController();
  /** The running import of restored data; null without one. */
  #imported: Promise<void> | null = null;
  /** Aborted when that import must end. */
  #stopped = new AbortController();

  constructor(options: AppClusterOptions) {
    const { place, clusterKey, appId, hosts } = options;
    this.#options = options;
    this.#keys = appKeys(clusterKey, appId);
    const folder = `${place.prefix}${folderOf(appId)}`.replace(/\/$/, '');
    this.settings = {
      bucket: `s3://${place.bucket}/${folder}`,
      key: this.#keys.clusterKey,
      ...(hosts && addressOf(hosts)),
    };
  }

  /** Whether the bucket does not answer, or has failed its checks: then no process of the app can run. */
  isAway(): boolean {
    return this.#options.isAway();
  }

  /** Whether this host is cut off from the others: then no process of the app may run here. */
  get isCutOff(): boolean {
    return this.#options.hosts?.gate?.isShut ?? false;
  }

  /**
   * Resolves when this host may run the app.
   * @throws {Error} while this host is cut off; {StartRefused} when the app leaves during the wait
   * @throws the signal's reason when the signal aborts during the wait
   */
  async untilAllowed(signal: AbortSignal): Promise<void> {
    await this.#options.hosts?.gate?.pass(AbortSignal.any([signal, this.#leaving.signal]));
  }

  /** Rejects starts that wait in `untilAllowed`. Otherwise a move, which ends the app's processes, would wait for them. */
  leaves(): void {
    this.#leaving.abort(new StartRefused('The app moves to another host'));
  }

  /** Call it when the departure has ended, also after a failure: starts may wait again. */
  stays(): void {
    this.#leaving = new AbortController();
  }

  /** Resolves when the bucket has passed its checks and answers. @throws the signal's reason once it is aborted */
  untilUsable(signal: AbortSignal): Promise<void> {
    return this.#options.untilUsable(signal);
  }

  /** Environment variables of the app's processes: the address of the bucket proxy, and the app's keys for it. */
  get environment(): Record<string, string> {
    return {
      AWS_ENDPOINT_URL: this.#options.endpoint(),
      AWS_REGION: 'auto',
      AWS_ACCESS_KEY_ID: this.#keys.accessKey,
      AWS_SECRET_ACCESS_KEY: this.#keys.secretKey,
    };
  }

  /** Where the bucket service reaches the app's R2 objects, with a key that opens only these. */
  get objectsPlace(): S3Place {
    const { place, appId, endpoint } = this.#options;
    return {
      ...{ endpoint: endpoint(), region: 'auto', bucket: place.bucket },
      prefix: `${place.prefix}${objectsFolderOf(appId)}`,
      accessKey: this.#keys.objectsAccessKey,
      secretKey: this.#keys.objectsSecretKey,
    };
  }

  /**
   * Removes the leases of processes that have ended, on this host or on a lost one. Never rejects. After a failure it calls
   * `warn`, and other processes wait up to 20 s for the leases to expire.
   */
  removeLeases(): Promise<void> {
    this.#leasesGone ??= this.#removeLeases().catch((error: unknown) => {
      this.#leasesGone = null;
      this.#options.warn(
        `the lease of its last process could not be removed; its objects may answer up to 20 s later: ${reason(error)}`,
      );
    });
    return this.#leasesGone;
  }

  /** Call it when a process of the app is about to begin. */
  processBegins(): void {
    this.#processes++;
    this.#leasesGone = null;
  }

  /** Call it when a process of the app has ended. Resolves as `removeLeases` does; never rejects. */
  async processEnded(): Promise<void> {
    this.#processes--;
    // A running removal may have found this process still listening.
    await this.#leasesGone;
    this.#leasesGone = null;
    await this.removeLeases();
  }

  /** Reads the alarms of the app's objects, as `readStoredAlarms` does. */
  async readAlarms(request: AlarmsRequest, signal: AbortSignal) {
    await this.#requireReadable();
    return readers.run<typeof folder.readStoredAlarms>(
      FOLDER,
      'readStoredAlarms',
      [this.#folder, request],
      this.#job(READ_MS, signal),
    );
  }

  /** Returns the time of the app's earliest alarm, in ms since 1970; null without one. */
  async nextAlarm(): Promise<number | null> {
    await this.#requireReadable();
    return readers.run<typeof folder.nextAlarm>(FOLDER, 'nextAlarm', [this.#folder], this.#job(READ_MS));
  }

  /** Lists objects of namespaces. The keys of `asked` and of the result are the namespaces' unique keys. */
  async objects(
    asked: Record<string, ListedObjects>,
    signal?: AbortSignal,
  ): Promise<Record<string, ObjectList>> {
    await this.#requireReadable();
    return readers.run<typeof folder.listObjects>(
      FOLDER,
      'listObjects',
      [this.#folder, asked],
      this.#job(READ_MS, signal),
    );
  }

  /** Whether the disk has restored data that is not in the bucket yet. */
  get isImporting(): boolean {
    return existsSync(this.#options.importing);
  }

  /**
   * Puts restored data that waits on the disk into the bucket. Call it before any other use of the app's data.
   * @throws {Error} when the bucket cannot be used or refuses the data, or this host is cut off; the next use retries
   * @throws {OtherHome} when another host has taken the app, because its data may be newer
   */
  async finishImport(): Promise<void> {
    await this.#options.ready();
    if (!this.isImporting) return;
    this.#imported ??= this.#import().finally(() => {
      this.#imported = null;
    });
    await this.#imported;
  }

  /** Ends the running import of restored data, which then rejects with `why`. Resolves when it has ended. */
  async stopImport(why: Error): Promise<void> {
    this.#stopped.abort(why);
    this.#stopped = new AbortController();
    await this.#imported?.catch(() => {});
  }

  /** Moves restored data that is not in the bucket into the trash. Call it when another host has taken the app. */
  async abandonImport(trash: string): Promise<void> {
    const { importing, appId } = this.#options;
    await this.stopImport(new OtherHome(appId));
    if (!this.isImporting) return;
    const directory = moveToTrash(trash, appId, { importing });
    await syncFile(dirname(importing));
    log(
      'error',
      'a restore did not end before another host took the app: its data may be incomplete, so restore it again',
      { app: appId, directory },
    );
  }

  /** Returns the size of the app's data and R2 objects in the bucket, in bytes. */
  bytes(): Promise<number> {
    const job = this.#job(READ_MS);
    return readers.run<typeof folder.countBytes>(FOLDER, 'countBytes', [this.#folder], job);
  }

  /** Removes all objects of the namespaces with these unique keys. No process may use the objects. */
  async removeObjects(keys: string[]): Promise<void> {
    const job = this.#job(CHANGE_MS);
    await changers.run<typeof folder.removeObjects>(FOLDER, 'removeObjects', [this.#folder, keys], job);
  }

  /** Replaces all data and R2 objects of the app by the files in a directory. No process may use the app's data. */
  async fill(directory: string, signal: AbortSignal): Promise<void> {
    await this.#options.ready();
    const job = this.#job(CHANGE_MS, signal);
    await changers.run<typeof folder.replaceFolder>(FOLDER, 'replaceFolder', [this.#folder, directory], job);
  }

  /** A store of the app's data in the bucket. */
  get store(): S3Store {
    return openFolder(this.#folder);
  }

  /** Removes everything that the app keeps in the bucket. */
  async remove(): Promise<void> {
    await changers.run<typeof folder.removeApp>(FOLDER, 'removeApp', [this.#folder], this.#job(CHANGE_MS));
  }

  /** Finishes the import of restored data. @throws {Error} when that fails, or the bucket does not answer */
  async #requireReadable(): Promise<void> {
    await this.finishImport();
    if (this.isAway()) throw new Error('the bucket does not answer');
  }

  async #removeLeases(): Promise<void> {
    const late = aborted(AbortSignal.timeout(LEASES_MS));
    const store = openFolder(this.#folder, { deadlineMs: LEASE_REQUEST_MS });
    const leases = await Promise.race([store.list(LEASES), late]);
    const remove = async ({ name }: Stored) => {
      if (await this.#isOfEnded(store, name)) await store.remove(name);
    };
    await Promise.race([each(leases, remove), late]);
  }

  /** Whether a lease is of a process that has ended. False when that is unknown: the lease then expires. */
  async #isOfEnded(store: S3Store, lease: string): Promise<boolean> {
    const { hosts } = this.#options;
    if (hosts === undefined && this.#processes === 0) return true;
    const found = await readIfThere(store, lease);
    const [, host, port, expires] = LEASE.exec(found?.toString('utf8') ?? '') ?? [];
    if (host === undefined) return false;
    // Without renewals, the process of another host has ended. If it has not, workerd protects the data.
    if (hosts !== undefined && host !== hosts.host) return !isRenewed(Number(expires));
    return this.#processes === 0 || !(await isListening(host, Number(port)));
  }

  async #import(): Promise<void> {
    const { importing, appId, isElsewhere } = this.#options;
    const { signal } = this.#stopped;
    if (await isElsewhere?.()) throw new OtherHome(appId);
    if (this.isCutOff) throw new Error(CUT_OFF);
    const job = this.#job(CHANGE_MS, signal);
    await changers.run<typeof folder.replaceFolder>(FOLDER, 'replaceFolder', [this.#folder, importing], job);
    await putAway(importing);
  }

  get #folder(): folder.AppFolder {
    const { place, appId } = this.#options;
    return { place, appId };
  }

  #job(deadlineMs: number, signal?: AbortSignal) {
    return { deadlineMs, key: this.#options.appId, signal };
  }
}

function addressOf({ host, port = 0 }: ClusterHosts): Pick<ClusterSettings, 'address'> {
  return { address: `${host}:${port}` };
}

/** Removes an imported directory. Renames it first: after a crash, a rest of it must not be imported over newer data. */
async function putAway(importing: string): Promise<void> {
  const done = `${importing}.done`;
  await rm(done, { recursive: true, force: true });
  await rename(importing, done);
  await syncFile(dirname(importing));
  await rm(done, { recursive: true, force: true });
}
