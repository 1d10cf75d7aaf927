// The host's side of the bucket service and the vectors service. Both run as one user, which owns the directory of an app's
// buckets and vector indexes.
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { UsageRow } from '../../../sqlite/storage/objects.ts';
import { AppService, type HostServiceAccess } from '../../app-services/app-service.ts';
import type { CountsFor } from '../../app-services/app-service-messages.ts';
import type { AppCluster } from '../../bucket/app-cluster.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { changeOwner, makeTraversable } from '../../isolation/rights.ts';
import type { AppUsers, User } from '../../isolation/users.ts';
import { usageAt } from './client.ts';
import { type AboutApp, INDEX, type ServiceOptions, SOCKET } from './messages.ts';

const PROGRAM = new URL('./program.ts', import.meta.url).pathname;
const VECTORS_PROGRAM = new URL('../../vectors/program.ts', import.meta.url).pathname;
/** Name of an app's socket of the vectors service, in the directory of the app's process. */
const VECTORS_SOCKET = 'vectors.sock';
/** More threads than Node's default of 4, because they mostly wait for the disk. */
const ENVIRONMENT = { UV_THREADPOOL_SIZE: '16' };
const MEMORY_BYTES = 3 * 1024 ** 3;
const HEAP_MB = 512;
/** The name under which both services get one user, as each app does under its id. */
const SERVICE = 'bucket-service';
/** Time limit to give an app's buckets to the services' user, in ms. They may have another owner after a copy or restore. */
const HAND_OVER_TIMEOUT_MS = 60_000;
/** Directory mode: the group may traverse it but not list it. */
const PASSED_BY_GROUP = 0o710;

export interface BucketsOptions {
  paths: Layout;
  users: (appId: string) => AppUsers;
  service: ServiceOptions;
  /** Returns the cluster of an app whose objects are in the bucket; null for objects on the disk. Default: null for all. */
  clusterOf?: (appId: string) => AppCluster | null;
}

export class Buckets {
  readonly #paths: Layout;
  readonly #service: AppService;
  readonly #vectors: AppService;
  readonly #clusterOf: (appId: string) => AppCluster | null;

  constructor({ paths, users, service, clusterOf = () => null }: BucketsOptions) {
    this.#paths = paths;
    this.#clusterOf = clusterOf;
    this.#service = new AppService({
      name: 'bucket service',
      program: PROGRAM,
      options: { ...service, directory: paths.allBuckets },
      environment: ENVIRONMENT,
      memoryBytes: MEMORY_BYTES,
      heapMb: HEAP_MB,
      user: () => users(SERVICE).cell,
      workshop: paths.serviceSockets,
      socket: (appId) => join(paths.buckets(appId), SOCKET),
      prepare: async (appId) => {
        // Restored objects must be in the bucket before the service uses the bucket.
        await clusterOf(appId)?.finishImport();
        await makeDirectory(paths, paths.buckets(appId), users(SERVICE).cell, users(appId).cell);
      },
      about: (appId): AboutApp => clusterOf(appId)?.objectsPlace ?? null,
    });
    this.#vectors = new AppService({
      name: 'vectors service',
      program: VECTORS_PROGRAM,
      options: { maxMb: service.maxMb, floorMb: service.floorMb, directory: paths.allBuckets },
      memoryBytes: MEMORY_BYTES,
      heapMb: HEAP_MB,
      computes: true,
      user: () => users(SERVICE).cell,
      workshop: paths.serviceSockets,
      socket: (appId) => join(paths.run(appId), VECTORS_SOCKET),
      prepare: async (appId) => {
        makeTraversable(paths.run(appId), users(appId).cell);
        await makeDirectory(paths, paths.buckets(appId), users(SERVICE).cell, users(appId).cell);
      },
    });
  }

  /** Process id of the bucket service; null while it does not run. */
  get pid(): Promise<number | null> {
    return this.#service.pid;
  }

  /** Starts the bucket service if any app has buckets or vector indexes: the first use of R2 then need not wait. */
  warm(): void {
    const { allBuckets } = this.#paths;
    if (existsSync(allBuckets) && readdirSync(allBuckets).length > 0) this.#service.warm();
  }

  access(appId: string): HostServiceAccess {
    return this.#service.access(appId);
  }

  /**
   * Returns an app's access to its vector indexes.
   * @param countsFor returns the app and account that the calls count for. Default: this app
   */
  vectors(appId: string, countsFor?: () => CountsFor): HostServiceAccess {
    return this.#vectors.access(appId, countsFor);
  }

  /**
   * Makes the vectors service serve an app's indexes. Creates their directory if needed.
   * @returns the path of the app's socket
   */
  openVectors(appId: string, countsFor: CountsFor): Promise<string> {
    return this.#vectors.open(appId, countsFor);
  }

  /**
   * Makes the bucket service serve an app's buckets. Creates their directory if needed.
   * @returns the path of the app's socket
   */
  open(appId: string): Promise<string> {
    return this.#service.open(appId);
  }

  /** Whether an app may have R2 objects. */
  has(appId: string): boolean {
    return this.#clusterOf(appId) !== null || existsSync(this.#paths.buckets(appId));
  }

  /**
   * For an app in the bucket: moves R2 objects that are still on the disk into the bucket. The first use of R2 does the
   * same.
   */
  async moveIn(appId: string): Promise<void> {
    if (existsSync(join(this.#paths.buckets(appId), INDEX))) await this.usage(appId);
  }

  /** Returns the usage of an app's buckets; `bucket` is a storage id. */
  async usage(appId: string): Promise<UsageRow[]> {
    return usageAt(await this.open(appId));
  }

  /** Starts or stops deferring removals of replaced and deleted files, while an app's buckets are copied. */
  hold(appId: string, isHeld: boolean): Promise<void> {
    return this.#service.hold(appId, isHeld);
  }

  /** Ends all work on an app's buckets and vector indexes, so that their files may be moved. */
  async forget(appId: string): Promise<void> {
    await Promise.all([this.#service.forget(appId), this.#vectors.forget(appId)]);
  }

  /** Ends the services. All changes that they acknowledged are on the disk or in the bucket. */
  async close(): Promise<void> {
    await Promise.all([this.#service.close(), this.#vectors.close()]);
  }
}

/** Makes the directory of an app's buckets. The services' user owns it, and the app's user may traverse it to the socket. */
async function makeDirectory(
  paths: Layout,
  directory: string,
  service: User | null,
  app: User | null,
): Promise<void> {
  mkdirSync(paths.allBuckets, { recursive: true, mode: 0o700 });
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  if (service === null || app === null) return;
  chmodSync(paths.allBuckets, 0o711);
  await changeOwner([directory], service, HAND_OVER_TIMEOUT_MS);
  const { gid, mode } = statSync(directory);
  if (gid === app.gid && (mode & 0o777) === PASSED_BY_GROUP) return;
  chownSync(directory, service.uid, app.gid);
  chmodSync(directory, PASSED_BY_GROUP);
}
