// The bucket as the host uses it: checks and outages, the proxy, and the clusters, code and records of apps.
import type { AppRecordQueries } from '../../sqlite/host/app-records.ts';
import type { FolderRemovalQueries } from '../../sqlite/host/folder-removals.ts';
import type { Layout } from '../disk/data-directory.ts';
import type { User } from '../isolation/users.ts';
import { aborted } from '../threads/aborted.ts';
import { AppCluster, type ClusterHosts } from './app-cluster.ts';
import { Away } from './away.ts';
import { BucketCheck } from './bucket-check.ts';
import { AppCode, type AppCodeOptions } from './code/app-code.ts';
import { FolderRemovals } from './folder-removals.ts';
import type { S3Place } from './place.ts';
import { BucketProxy } from './proxy/bucket-proxy.ts';
import type { Counts } from './proxy/messages.ts';
import { removeAbandonedFolders } from './records/abandoned-folders.ts';
import { AppRecords } from './records/app-records.ts';
import { smallObjects } from './s3-store.ts';

export interface BucketOptions {
  place: S3Place;
  /** The secret that all keys of apps derive from. */
  clusterKey: string;
  /** Claims the bucket for this Cellar. @throws {UnusableStore} */
  claim: () => Promise<void>;
  /** The user that runs the proxy; `null`: the host's own user. */
  user: () => User | null;
  paths: Pick<Layout, 'importing' | 'repository' | 'release' | 'builds'>;
  /** The records of apps, and which of them have changed. */
  records: AppRecordQueries;
  /** The folders that are to be removed. */
  removals: FolderRemovalQueries;
  /** How apps' clusters span several hosts. Left out in a Cellar of one host. */
  hosts?: ClusterHosts | undefined;
  /** The id of this host. Left out in a Cellar of one host. */
  self?: string | null;
  /** Disk space that must stay free, in MiB. */
  floorMb: number;
}

export class Bucket {
  readonly #options: BucketOptions;
  readonly #check: BucketCheck;
  readonly #proxy: BucketProxy;
  /** Removes the folders of apps that were deleted or have moved to a disk. */
  readonly removals: FolderRemovals;
  readonly #away: Away;
  /** Writes records of apps, which another machine needs to run the apps. */
  readonly records: AppRecords;
  /** The first check of the bucket. Null before `start`. */
  #started: Promise<void> | null = null;
  readonly #counts = new Map<string, Counts>();
  /** Resolves when the bucket is usable again. A new promise replaces it then. */
  #isBack = Promise.withResolvers<void>();
  /** Called when the bucket is usable again, after an outage or failed checks. */
  onBack: () => void = () => {};

  constructor(options: BucketOptions) {
    this.#options = options;
    this.#check = new BucketCheck(options.place, options.claim, () => this.#back());
    this.#away = new Away(options.place, (wasLong) => {
      this.#proxy.storeIsBack();
      if (wasLong) this.#back();
    });
    this.#proxy = new BucketProxy({
      place: options.place,
      clusterKey: options.clusterKey,
      user: options.user,
      onCounts: (appId, counts) => this.#counts.set(appId, counts),
      onAway: (why) => {
        if (why !== null) this.#away.failed(why);
      },
    });
    const store = smallObjects(options.place);
    this.records = new AppRecords(options.records, store, () => this.ready(), options.self);
    this.removals = new FolderRemovals(
      options.removals,
      () => this.ready(),
      (appId) => this.cluster(appId, () => {}).remove(),
      (appId) => this.records.requireOwn(appId),
    );
  }

  /** Removes the folders of deleted apps whose host was lost. Never rejects. */
  removeAbandoned(): Promise<void> {
    return removeAbandonedFolders({
      store: smallObjects(this.#options.place),
      ready: () => this.ready(),
      remove: (appId) => this.cluster(appId, () => {}).remove(),
    });
  }

  /** Why the bucket cannot be used or does not answer, or that its clock differs too much. Null without a problem. */
  get problem(): string | null {
    return this.#check.problem ?? this.#away.reason;
  }

  /** How far this machine's clock was ahead of the bucket's at the last check, in ms; null until one passes. */
  get clockMs(): number | null {
    return this.#check.clockMs;
  }

  /** Requests and transferred bytes of each app since the host's start. */
  get counts(): ReadonlyMap<string, Counts> {
    return this.#counts;
  }

  /** Whether the checks at the start have failed, and not passed since. */
  get #hasFailed(): boolean {
    return this.#check.problem !== null && !this.#check.isPassed;
  }

  /** The port on loopback where the processes of apps reach the bucket. */
  get port(): number {
    return this.#proxy.listen();
  }

  /** Checks the bucket once; later calls return the same promise. @throws as `BucketCheck.start` does */
  start(): Promise<void> {
    this.#started ??= this.#check.start();
    return this.#started;
  }

  /**
   * Resolves when the bucket has passed its checks. Await it before any use: another Cellar's bucket lacks the apps' data.
   * @throws {Error} when it has not passed its checks
   */
  async ready(): Promise<void> {
    await this.start().catch(() => {});
    if (!this.#check.isPassed) throw new Error(this.problem ?? 'the bucket has not passed its checks');
  }

  /** Resolves when the bucket has passed its checks and answers. @throws the signal's reason once it is aborted */
  async untilUsable(signal: AbortSignal): Promise<void> {
    await this.start().catch(() => {});
    while (!this.#check.isPassed || this.#away.isAway)
      await Promise.race([this.#isBack.promise, aborted(signal)]);
    signal.throwIfAborted();
  }

  #back(): void {
    this.#isBack.resolve();
    this.#isBack = Promise.withResolvers();
    this.onBack();
  }

  /** Starts the proxy, through which apps' processes reach the bucket. @throws {Error} when it does not listen */
  serve(): Promise<void> {
    return this.#proxy.start();
  }

  /** Call it when no app runs any more. */
  async close(): Promise<void> {
    this.#check.close();
    this.#away.close();
    await this.#proxy.close();
  }

  /**
   * Returns the cluster of an app.
   * @param warn called with messages for the app's owner
   * @param hosts how the cluster spans several hosts. Default: `hosts` of the constructor's options
   */
  cluster(
    appId: string,
    warn: (words: string) => void,
    hosts: ClusterHosts | undefined = this.#options.hosts,
  ): AppCluster {
    const { place, clusterKey, paths } = this.#options;
    return new AppCluster({
      ...{ place, clusterKey, appId, warn },
      endpoint: () => `http://127.0.0.1:${this.port}`,
      isAway: () => this.#hasFailed || this.#away.isAway,
      ready: () => this.ready(),
      untilUsable: (signal) => this.untilUsable(signal),
      importing: paths.importing(appId),
      isElsewhere: () => this.records.isElsewhere(appId),
      hosts,
    });
  }

  code(appId: string, app: Pick<AppCodeOptions, 'owner' | 'isDeleted'>): AppCode {
    const { place, paths, floorMb } = this.#options;
    return new AppCode({ ...app, place, appId, paths, floorMb, ready: () => this.#answering() });
  }

  /** As `ready`, but rejects while the bucket does not answer. @returns a signal that aborts when it stops answering */
  async #answering(): Promise<AbortSignal> {
    await this.ready();
    const { lost } = this.#away;
    lost.throwIfAborted();
    return lost;
  }
}
