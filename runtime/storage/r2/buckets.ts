// The host's side of the bucket service.
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { UsageRow } from '../../../sqlite/storage/objects.ts';
import { AppService, type HostServiceAccess } from '../../app-services/app-service.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { handOver } from '../../isolation/rights.ts';
import type { AppUsers, User } from '../../isolation/users.ts';
import { usageAt } from './client.ts';
import { type ServiceOptions, SOCKET } from './messages.ts';

const PROGRAM = new URL('./program.ts', import.meta.url).pathname;
/** Its threads mostly wait for the disk. */
const ENVIRONMENT = { UV_THREADPOOL_SIZE: '16' };
const MEMORY_BYTES = 3 * 1024 ** 3;
const HEAP_MB = 512;
/** Whose user the service is, among those of the apps. */
const SERVICE = 'bucket-service';
/** Longest time to give the buckets of a directory that was copied to the service's new user, in ms. */
const HAND_OVER_TIMEOUT_MS = 60_000;
/** Rights to pass through a directory: its owner's and its group's, not to see what is in it. */
const PASSED_BY_GROUP = 0o710;

export interface BucketsOptions {
  paths: Layout;
  users: (appId: string) => AppUsers;
  service: ServiceOptions;
}

export class Buckets {
  readonly #paths: Layout;
  readonly #service: AppService;

  constructor({ paths, users, service }: BucketsOptions) {
    this.#paths = paths;
    this.#service = new AppService({
      name: 'bucket service',
      program: PROGRAM,
      options: { ...service, directory: paths.allBuckets },
      environment: ENVIRONMENT,
      memoryBytes: MEMORY_BYTES,
      heapMb: HEAP_MB,
      user: () => users(SERVICE).cell,
      workshop: paths.doors,
      socket: (appId) => join(paths.buckets(appId), SOCKET),
      prepare: (appId) => makeDirectory(paths, paths.buckets(appId), users(SERVICE).cell, users(appId).cell),
    });
  }

  /** The process, while it runs. */
  get pid(): Promise<number | null> {
    return this.#service.pid;
  }

  /** Starts the service if any app has buckets, so that the first to need it does not wait. */
  warm(): void {
    const { allBuckets } = this.#paths;
    if (existsSync(allBuckets) && readdirSync(allBuckets).length > 0) this.#service.warm();
  }

  /** An app's way to its buckets. */
  access(appId: string): HostServiceAccess {
    return this.#service.access(appId);
  }

  /**
   * Has the service serve an app's buckets, which are made if there are none.
   * @returns the socket where it does
   */
  open(appId: string): Promise<string> {
    return this.#service.open(appId);
  }

  /** Whether an app ever had a bucket. */
  has(appId: string): boolean {
    return existsSync(this.#paths.buckets(appId));
  }

  /** What an app's buckets keep, by their storage ids. */
  async usage(appId: string): Promise<UsageRow[]> {
    return usageAt(await this.open(appId));
  }

  /** Begins or ends to keep the files of objects that an app replaces or deletes, while its buckets are copied. */
  hold(appId: string, isHeld: boolean): Promise<void> {
    return this.#service.hold(appId, isHeld);
  }

  /** Ends what goes on in an app's buckets, whose files may then be moved. */
  forget(appId: string): Promise<void> {
    return this.#service.forget(appId);
  }

  /** Ends the service. All that it acknowledged is on the disk. */
  close(): Promise<void> {
    return this.#service.close();
  }
}

/** Makes the directory of an app's buckets: the service's own, through which the app's user comes to the socket. */
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
  await handOver([directory], service, HAND_OVER_TIMEOUT_MS);
  const { gid, mode } = statSync(directory);
  if (gid === app.gid && (mode & 0o777) === PASSED_BY_GROUP) return;
  chownSync(directory, service.uid, app.gid);
  chmodSync(directory, PASSED_BY_GROUP);
}
