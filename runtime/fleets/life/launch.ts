// A release brought up on an app's storage: databases migrated, process started.
import { join } from 'node:path';
import type { Release } from '../../../bundler/release.ts';
import type { HostServiceAccess } from '../../app-services/app-service.ts';
import type { User } from '../../isolation/users.ts';
import type { OutputSink } from '../../processes/output-sink.ts';
import { CACHE_DISK } from '../config/cache.ts';
import { QUEUE_SOCKET } from '../config/cell-config.ts';
import type { OutwardService } from '../config/outward.ts';
import { secretEnvironment } from '../config/secret-bindings.ts';
import { type Cell, DEFAULT_CPU_MS } from '../process/cell.ts';
import { type CellFiles, CellFilesCache } from '../process/cell-files.ts';
import type { ServiceAccess } from '../process/service-access.ts';
import { type CellOptions, startCell } from '../process/start-cell.ts';
import { type DueWork, NO_SOCKET } from '../process/write-cell-files.ts';
import { migrate } from './migrate.ts';
import { prefill } from './prefill.ts';
import { tryRelease } from './trial.ts';

/** A release on disk. */
export interface ReleaseRef {
  deployId: string;
  directory: string;
}

/** Where an app's process runs, and on what. */
export interface Place {
  /** Path of the workerd program. */
  workerd: string;
  /** Who runs it; `null`: the host's own user. */
  user: User | null;
  /** Memory that a process may use (`RUNNER_CELL_MAX_MB`), in MiB. */
  memoryMb: number;
  /** CPU time that an app may compute for without a pause, whatever its project says (`RUNNER_CELL_CPU_MAX_S`), in ms. */
  cpuMaxMs?: number;
  /** `run`: sockets, the pid file and the files of launches. `data`: the app's storage. */
  directories: { run: string; data: string };
  /** The secrets that its Worker gets at this moment, by name. @throws when they cannot be read */
  secrets: () => Record<string, string>;
  /** Where a process of a release has its output go. */
  output: (deployId: string) => OutputSink;
  /** MiB of responses that the Cache API keeps (`RUNNER_FLEET_ASSET_CACHE_MB`). Left out or 0: none. */
  cacheMb?: number;
  /** Where the control UI is, as browsers are told that meet an error of the app; null where they are told nothing. */
  uiUrl?: () => string | null;
  /** The app's way to its buckets. Left out where there is no bucket service. */
  buckets?: HostServiceAccess;
  /** The app's way to other apps. Left out where there are none. */
  services?: ServiceAccess;
  /** Private addresses and CIDR ranges that the app may reach. None when left out. */
  egress?: readonly string[];
  /** The app's way to each service for what lies outside that there is. */
  outward?: Partial<Record<OutwardService, HostServiceAccess>>;
  /** For an app that somebody works on at this machine; left out for one that was deployed. */
  development?: Development;
}

/** What a process has besides, whose app somebody works on. */
export interface Development {
  /** Has a debugger reach each process, and is told the port on loopback; null: none does. */
  onInspector: ((port: number) => void) | null;
}

/** What a start has to keep to, as `CellOptions` has it. */
type Start = Pick<CellOptions, 'startTimeoutMs' | 'onSpawned'> & { signal: AbortSignal };

/** Starts the processes of one app. */
export class Launcher {
  readonly #place: Place;
  readonly #files: CellFilesCache;
  /** The config of the release that the databases were last found up to date with. */
  #migrated: string | null = null;

  constructor(place: Place) {
    this.#place = place;
    const {
      directories,
      memoryMb,
      buckets,
      services,
      outward,
      egress = [],
      uiUrl,
      development,
      cacheMb,
    } = place;
    const around = {
      egress,
      ...(buckets && { bucketSocket: buckets.socket }),
      ...(services && { serviceSocket: services.socket }),
      outwardSockets: { ai: outward?.ai?.socket, send_email: outward?.send_email?.socket },
    };
    this.#files = new CellFilesCache(
      directories.run,
      memoryMb,
      around,
      uiUrl,
      development !== undefined,
      cacheMb,
    );
  }

  /**
   * Brings the databases up to the release and starts its process. Nothing else may have the storage.
   * @param log gets what the migrations say
   */
  async launch(release: ReleaseRef, log: (line: string) => void, start: Start): Promise<Cell> {
    const { workerd, user, memoryMb, directories, output, buckets, services, outward, development } =
      this.#place;
    const secrets = this.#place.secrets();
    const files = await this.#migrate(release, secrets, log, start.signal);
    const { config, hasBuckets, outwardServices, hasWorker, hasCache, sockets, calls, cpuMs } = files;
    // Beside the start: the process connects when the app first uses them.
    const servicesOpen = [
      hasBuckets && buckets?.open(),
      ...outwardServices.map((type) => outward?.[type]?.open()),
    ];
    // Before it: its modules may call already.
    await services?.open(calls);
    const cell = await startCell({
      workerd,
      user,
      memoryMb,
      directory: release.directory,
      config,
      environment: secretEnvironment(secrets),
      disks: {
        do: join(directories.data, 'do'),
        kv: join(directories.data, 'kv'),
        // Not with the storage: it is in no snapshot, and counts for no limit but its own.
        ...(hasCache && { [CACHE_DISK]: join(directories.run, CACHE_DISK) }),
      },
      runDirectory: directories.run,
      sockets,
      doors: {
        ...(hasWorker && { exports: 'health' }),
        ...(sockets.includes(QUEUE_SOCKET) && { queues: QUEUE_SOCKET }),
      },
      ownsStorage: true,
      onInspector: development?.onInspector ?? null,
      output: output(release.deployId),
      ...start,
    });
    cell.cpuLimitMs = Math.min(cpuMs ?? DEFAULT_CPU_MS, this.#place.cpuMaxMs ?? Number.POSITIVE_INFINITY);
    await Promise.all(servicesOpen);
    return cell;
  }

  /** Brings the databases up to the release, and gives its files. No database is asked when that was done before. */
  migrate(release: ReleaseRef, log: (line: string) => void, signal: AbortSignal): Promise<CellFiles> {
    return this.#migrate(release, this.#place.secrets(), log, signal);
  }

  async #migrate(
    { directory }: ReleaseRef,
    secrets: object,
    log: (line: string) => void,
    signal: AbortSignal,
  ): Promise<CellFiles> {
    const { workerd, user, memoryMb, directories } = this.#place;
    const files = await this.#files.of(directory, Object.keys(secrets));
    if (files.config === this.#migrated) return files;
    await migrate({
      workerd,
      user,
      memoryMb,
      databases: files.databases,
      directory,
      dataDirectory: directories.data,
      runDirectory: directories.run,
      log,
      signal,
    });
    this.#migrated = files.config;
    return files;
  }

  /** Fills the app's cache with what a release has for it, as `prefill` says. */
  async prefill(
    { directory }: ReleaseRef,
    filled: NonNullable<Release['prefill']>,
    signal: AbortSignal,
  ): Promise<void> {
    const { workerd, user, memoryMb, directories, buckets } = this.#place;
    if (filled.kind === 'bucket') await buckets?.open();
    await prefill({
      workerd,
      user,
      memoryMb,
      directory,
      dataDirectory: directories.data,
      runDirectory: directories.run,
      prefill: filled,
      bucketSocket: buckets?.socket ?? NO_SOCKET,
      signal,
    });
  }

  /** The storage is another one now: its databases are asked again what they have. */
  forgetStorage(): void {
    this.#migrated = null;
  }

  /** What of a release has work to do by itself. */
  async dueWork(directory: string): Promise<DueWork> {
    return (await this.#files.of(directory, Object.keys(this.#place.secrets()))).due;
  }

  /** Starts a release on storage of its own, beside the one that serves, as `tryRelease` says. */
  async try({ directory }: ReleaseRef, signal: AbortSignal): Promise<string[]> {
    const secrets = this.#place.secrets();
    const { trialConfig } = await this.#files.of(directory, Object.keys(secrets));
    const release = { directory, config: trialConfig, environment: secretEnvironment(secrets) };
    return tryRelease(this.#place, release, signal);
  }
}
