// Launches a release on an app's storage: migrates its databases, then starts its process.
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { Release } from '../../../bundler/release.ts';
import type { HostServiceAccess } from '../../app-services/app-service.ts';
import type { AppCluster } from '../../bucket/app-cluster.ts';
import type { User } from '../../isolation/users.ts';
import type { OutputSink } from '../../processes/output-sink.ts';
import { CACHE_DISK } from '../config/cache.ts';
import { QUEUE_SOCKET } from '../config/cell-config.ts';
import type { SealedKey } from '../config/mtls/mtls.ts';
import type { HostService } from '../config/outward.ts';
import { secretEnvironment } from '../config/secret-bindings.ts';
import { type Cell, DEFAULT_CPU_MS } from '../process/cell.ts';
import { type CellFiles, CellFilesCache } from '../process/cell-files.ts';
import type { ServiceAccess } from '../process/service-access.ts';
import { type CellOptions, startCell } from '../process/start-cell.ts';
import { evictOwner, OWNER_FILE } from '../process/storage-claim.ts';
import { type DueWork, NO_SOCKET } from '../process/write-cell-files.ts';
import { migrate } from './migrate.ts';
import { prefill } from './prefill.ts';
import { tryRelease } from './trial.ts';

/** A release on disk. */
export interface ReleaseRef {
  deployId: string;
  directory: string;
}

/** Where an app's process runs, and its resources. */
export interface Place {
  /** Path of the workerd program. */
  workerd: string;
  /** The user that runs it; `null`: the host's own. */
  user: User | null;
  /** Memory that a process may use (`RUNNER_CELL_MAX_MB`), in MiB. */
  memoryMb: number;
  /** Upper limit of uninterrupted CPU time (`RUNNER_CELL_CPU_MAX_S`), in ms. The app's project can only set less. */
  cpuMaxMs?: number;
  /** `run`: the directory of sockets, the pid file and the files of launches. `data`: the directory of the app's storage. */
  directories: { run: string; data: string };
  /** Returns the current secrets of the Worker, by name. @throws when they cannot be read */
  secrets: () => Record<string, string>;
  /** Decrypts the key of a client certificate. Left out where no release has one. @throws when it cannot be decrypted */
  openKey?: (key: SealedKey) => string;
  /** Returns the current overrides of the Worker's variables, by name. Left out: none. */
  vars?: () => Record<string, unknown>;
  /** Returns the output sink for a release's process. */
  output: (deployId: string) => OutputSink;
  /** Limit of the Cache API (`RUNNER_FLEET_ASSET_CACHE_MB`), in MiB. Left out or 0: no cache. */
  cacheMb?: number;
  /** Whether the calls that a request waits for, such as to storage, are timed (`RUNNER_TRACE_CALLS`). Default: false. */
  timesCalls?: boolean;
  /** Whether crons may have a field for seconds (`RUNNER_CRON_SECONDS`). Default: false. */
  cronSeconds?: boolean;
  /** The control UI's address on error pages; empty: no links to it; null: no error pages. */
  uiUrl?: () => string | null;
  /** The app's access to its buckets. Left out without a bucket service. */
  buckets?: HostServiceAccess;
  /** The app's access to other apps. Left out: it can call no other app. */
  services?: ServiceAccess;
  /** The app's cluster. Left out for an app that keeps its data on this machine. */
  cluster?: AppCluster | undefined;
  /** Fetches a release's code into its directory. Left out for an app that keeps its code on this machine. */
  load?: ((directory: string) => Promise<void>) | undefined;
  /** Private addresses and CIDR ranges that the app may reach. Default: none. */
  egress?: readonly string[];
  /** Returns the number of the app's running containers. While there are any, its idle process is not ended. Default: 0. */
  containers?: () => number;
  /** The app's access to each running service of the host, except R2's. */
  hostServices?: Partial<Record<HostService, HostServiceAccess>>;
  /** For an app in development on this machine; left out for a deployed one. */
  development?: Development;
}

/** Extra options for the process of an app in development. */
export interface Development {
  /** Enables the inspector in each process, and gets its port on loopback; null: no inspector. */
  onInspector: ((port: number) => void) | null;
}

/** Inputs of the config of a Worker that are not in the release. */
interface Given {
  secrets: Record<string, string>;
  vars: Record<string, unknown>;
  /** Whether the Worker's outgoing requests go to an outbound Worker. */
  hasOutbound: boolean;
}

/** Constraints of a start, as in `CellOptions`. */
type Start = Pick<CellOptions, 'startTimeoutMs' | 'onSpawned'> & { signal: AbortSignal };

/** Maximum number of processes of one app. */
export const MOST_PROCESSES = 16;

/** Starts the processes of one app. */
export class Launcher {
  readonly #place: Place;
  readonly #files: CellFilesCache;
  /** Path of the config for which the databases were last migrated; null: not known. */
  #migrated: string | null = null;
  /** The latest release that was launched, and the inputs of its config. */
  #launched: { release: ReleaseRef; given: Given } | null = null;

  constructor(place: Place) {
    this.#place = place;
    const {
      directories,
      memoryMb,
      buckets,
      services,
      hostServices = {},
      egress = [],
      cluster,
      uiUrl,
      development,
      cacheMb,
      timesCalls,
      cronSeconds,
    } = place;
    const around = {
      egress,
      cluster: cluster?.settings ?? null,
      ...(buckets && { bucketSocket: buckets.socket }),
      ...(services && { serviceSocket: services.socket }),
      hostServiceSockets: Object.fromEntries(
        Object.entries(hostServices).map(([type, { socket }]) => [type, socket]),
      ),
    };
    this.#files = new CellFilesCache(
      directories.run,
      memoryMb,
      around,
      uiUrl,
      development !== undefined,
      cacheMb,
      timesCalls,
      cronSeconds,
    );
  }

  /**
   * Migrates the databases to the release and starts its process. Nothing else may use the storage.
   * @param log gets the migrations' messages
   */
  async launch(release: ReleaseRef, log: (line: string) => void, start: Start): Promise<Cell> {
    const given = this.#given();
    if (this.#place.cluster) await this.#endOrphans();
    const files = await this.#migrate(release, given, log, start.signal);
    this.#launched = { release, given };
    return this.#start(release, files, given, this.#runDirectory(0), start);
  }

  /**
   * Starts one more process of the launched release, as another member of the app's cluster. All members must have the same
   * config, so changed secrets and variables wait for the next launch.
   * @param number distinguishes the processes of the app, from 0 to `MOST_PROCESSES` - 1. `launch` starts process 0
   */
  async launchBeside(number: number, start: Start): Promise<Cell> {
    const { release, given } = this.#launched!;
    const files = await this.#filesOf(release.directory, given);
    return this.#start(release, files, given, this.#runDirectory(number), start);
  }

  /** Returns the directory of a process. Process 0 has that of the app itself, because most apps have only one process. */
  #runDirectory(number: number): string {
    const { run } = this.#place.directories;
    return number === 0 ? run : join(run, String(number));
  }

  /** Whether the overrides of variables are the same as at the latest launch. */
  get hasCurrentVars(): boolean {
    return isDeepStrictEqual(this.#launched?.given.vars ?? {}, this.#place.vars?.() ?? {});
  }

  /** Whether the app had an outbound Worker at the latest launch. */
  get hasOutbound(): boolean {
    return this.#launched?.given.hasOutbound ?? false;
  }

  /**
   * Ends processes, except process 0, that a killed host has left: they may run another release. `startCell` ends process 0.
   */
  async #endOrphans(): Promise<void> {
    for (let number = 1; number < MOST_PROCESSES; number++)
      await evictOwner(join(this.#runDirectory(number), OWNER_FILE));
  }

  async #start(
    release: ReleaseRef,
    files: CellFiles,
    { secrets }: Given,
    runDirectory: string,
    start: Start,
  ): Promise<Cell> {
    const { workerd, user, memoryMb, directories, output, buckets, services } = this.#place;
    const { openKey, cluster, development } = this.#place;
    const data = runDirectory === directories.run ? directories.data : runDirectory;
    const { config, hasBuckets, hostServices, hasWorker, hasCache, sockets, calls, keys, cpuMs } = files;
    // These services open in parallel with the start, because the process connects only when the app first uses them.
    const servicesOpen = [
      hasBuckets && buckets?.open(),
      ...hostServices.map((type) => this.#place.hostServices?.[type]?.open()),
    ];
    // Opened before the start, because the app's modules may call other apps while they load.
    await services?.open(calls);
    const cell = await startCell({
      workerd,
      user,
      memoryMb,
      directory: release.directory,
      config,
      environment: secretEnvironment(secrets),
      texts: keys.map((key) => openKey!(key)),
      disks: {
        do: join(data, 'do'),
        kv: join(data, 'kv'),
        // The cache is outside the storage: snapshots do not contain it, and it has its own limit.
        ...(hasCache && { [CACHE_DISK]: join(runDirectory, CACHE_DISK) }),
      },
      runDirectory,
      sockets,
      callSockets: {
        ...(hasWorker && { exports: 'health' }),
        ...(sockets.includes(QUEUE_SOCKET) && { queues: QUEUE_SOCKET }),
      },
      ownsStorage: true,
      cluster,
      onInspector: development?.onInspector ?? null,
      output: output(release.deployId),
      ...start,
    });
    cell.cpuLimitMs = Math.min(cpuMs ?? DEFAULT_CPU_MS, this.#place.cpuMaxMs ?? Number.POSITIVE_INFINITY);
    await Promise.all(servicesOpen);
    return cell;
  }

  /**
   * Migrates the databases to the release and returns its files. Migrates nothing if the previous call had the same config.
   */
  migrate(release: ReleaseRef, log: (line: string) => void, signal: AbortSignal): Promise<CellFiles> {
    return this.#migrate(release, this.#given(), log, signal);
  }

  async #migrate(
    { directory }: ReleaseRef,
    given: Given,
    log: (line: string) => void,
    signal: AbortSignal,
  ): Promise<CellFiles> {
    const { workerd, user, memoryMb, directories, cluster } = this.#place;
    const files = await this.#filesOf(directory, given);
    if (files.config === this.#migrated) return files;
    await migrate({
      workerd,
      user,
      memoryMb,
      databases: files.databases,
      directory,
      dataDirectory: directories.data,
      runDirectory: directories.run,
      cluster,
      log,
      signal,
    });
    this.#migrated = files.config;
    return files;
  }

  /** Fills the app's cache with a release's files; see `prefill`. */
  async prefill(
    { directory }: ReleaseRef,
    filled: NonNullable<Release['prefill']>,
    signal: AbortSignal,
  ): Promise<void> {
    const { workerd, user, memoryMb, directories, buckets, cluster } = this.#place;
    if (filled.kind === 'bucket') await buckets?.open();
    await prefill({
      workerd,
      user,
      memoryMb,
      directory,
      dataDirectory: directories.data,
      runDirectory: directories.run,
      cluster,
      prefill: filled,
      bucketSocket: buckets?.socket ?? NO_SOCKET,
      signal,
    });
  }

  /** Call after the storage was replaced, so that the next launch reads again which migrations are applied. */
  forgetStorage(): void {
    this.#migrated = null;
  }

  /** Returns the parts of a release that run without a request, such as alarms and crons. */
  async dueWork(directory: string): Promise<DueWork> {
    return (await this.#filesOf(directory, this.#given())).due;
  }

  async #filesOf(directory: string, { secrets, vars, hasOutbound }: Given): Promise<CellFiles> {
    await this.#place.load?.(directory);
    return this.#files.of(directory, Object.keys(secrets), vars, hasOutbound);
  }

  #given(): Given {
    const { secrets, vars, services } = this.#place;
    return {
      secrets: secrets(),
      vars: vars?.() ?? {},
      hasOutbound: services?.hasOutbound ?? false,
    };
  }

  /** Tries a release on temporary storage, beside the one that serves; see `tryRelease`. */
  async try({ directory }: ReleaseRef, signal: AbortSignal): Promise<string[]> {
    const given = this.#given();
    const { trialConfig } = await this.#filesOf(directory, given);
    const release = { directory, config: trialConfig, environment: secretEnvironment(given.secrets) };
    return tryRelease(this.#place, release, signal);
  }
}
