// The files for workerd, such as its config and Cellar's entry module. They are written at a launch from the release's
// description, so that old releases get the features of this version of Cellar. They are cached.
import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { readdir, readFile, rm } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { RELEASE_FILE } from '../../../bundler/release.ts';
import { SerialQueue } from '../../queues/serial-queue.ts';
import { threads } from '../../threads/worker.ts';
import { startStep } from '../admission/room.ts';
import { internetService } from '../config/network.ts';
import { textsHash } from '../config/texts.ts';
import type * as writer from './write-cell-files.ts';
import {
  type CellFilesOrder,
  CONFIG,
  LAUNCH,
  type Launch,
  NO_SOCKET,
  TRIAL_CONFIG,
} from './write-cell-files.ts';

/**
 * Increase it with every change of the written files, except texts of `textOf` and network rules: `#nameFor` hashes these.
 */
const FORMAT = 26;

/** The JavaScript heap's share of a process's memory. The rest is for buffers, SQLite and workerd itself. */
const HEAP_SHARE = 0.75;

/** Path of the file with the operator's own certificate authorities; null: none. */
const AUTHORITIES = process.env.NODE_EXTRA_CA_CERTS || null;

const WRITER = new URL('./write-cell-files.ts', import.meta.url);
/** Time limit to write the files, in ms. */
const WRITE_TIMEOUT_MS = 30_000;
/** Prefix of the directories with these files. They lie in the app's run directory, beside its sockets. */
const PREFIX = 'cell-';

/** The services of the host and the private networks that an app can reach. */
export type OutsideAccess = Pick<
  CellFilesOrder,
  'bucketSocket' | 'serviceSocket' | 'hostServiceSockets' | 'egress' | 'cluster'
>;

/** Names of secrets, overrides of variables, and whether there is an outbound Worker. */
type Given = Pick<CellFilesOrder, 'secrets' | 'vars' | 'hasOutbound'>;

/** The facts about a release that a launch needs, and the paths of its configs. */
export interface CellFiles extends Launch {
  /** Path of the config that serves. */
  config: string;
  /** Path of the trial's config; for a static site the same as `config`. */
  trialConfig: string;
}

/** Caches the files of one app's latest launch. The files of the launch before it stay on the disk. */
export class CellFilesCache {
  readonly #directory: string;
  readonly #heapMb: number;
  readonly #around: OutsideAccess;
  readonly #uiUrl: () => string | null;
  readonly #reloads: boolean;
  readonly #cacheMb: number;
  readonly #timesCalls: boolean;
  readonly #cronSeconds: boolean;
  #last: CellFiles | null = null;
  /** Runs the calls of `of` one after another. */
  readonly #queue = new SerialQueue();

  /**
   * @param directory the app's run directory, which only the host can write
   * @param memoryMb memory that a process may use, in MiB
   * @param around what this app reaches outside its process. Default: nothing
   * @param uiUrl returns the control UI's address on error pages; empty: no links to it; null: no error pages
   * @param reloads whether browsers reload pages when the app has changed
   * @param cacheMb limit of the Cache API, in MiB; 0: no cache
   * @param timesCalls whether the calls that a request waits for are timed
   * @param cronSeconds whether crons may have a field for seconds
   */
  constructor(
    directory: string,
    memoryMb: number,
    {
      bucketSocket = NO_SOCKET,
      serviceSocket = NO_SOCKET,
      hostServiceSockets = {},
      egress = [],
      cluster = null,
    }: Partial<OutsideAccess> = {},
    uiUrl: () => string | null = () => null,
    reloads = false,
    cacheMb = 0,
    timesCalls = false,
    cronSeconds = false,
  ) {
    this.#cronSeconds = cronSeconds;
    this.#timesCalls = timesCalls;
    this.#cacheMb = cacheMb;
    this.#uiUrl = uiUrl;
    this.#reloads = reloads;
    this.#directory = directory;
    this.#around = { bucketSocket, serviceSocket, hostServiceSockets, egress, cluster };
    this.#heapMb = Math.floor(memoryMb * HEAP_SHARE);
  }

  /**
   * Returns the files for a process of a release. A call with the same arguments as the previous one writes nothing.
   * @param release the release's directory
   * @param secrets names of the secrets
   * @param vars overrides of variables
   * @param hasOutbound whether the app has an outbound Worker
   * @throws {StartRefused} when the host cannot create another process
   * @throws {Error} when the release's description is missing, names a path outside of it, or is too large for a launch
   */
  of(
    release: string,
    secrets: string[] = [],
    vars: Record<string, unknown> = {},
    hasOutbound = false,
  ): Promise<CellFiles> {
    return this.#queue.run(() => startStep(() => this.#find(release, { secrets, vars, hasOutbound })));
  }

  async #find(release: string, given: Given): Promise<CellFiles> {
    const directory = join(this.#directory, this.#nameFor(release, given));
    const config = join(directory, CONFIG);
    const exists = existsSync(config);
    if (exists && this.#last?.config === config) return this.#last;
    if (!exists) await this.#write(release, directory, given);
    const launch = JSON.parse(await readFile(join(directory, LAUNCH), 'utf8')) as Launch;
    this.#last = {
      ...launch,
      config,
      trialConfig: launch.hasWorker ? join(directory, TRIAL_CONFIG) : config,
    };
    return this.#last;
  }

  /**
   * Returns a name from all inputs of the files. The description's time and size detect a release rebuilt at the same path.
   */
  #nameFor(release: string, { secrets, vars, hasOutbound }: Given): string {
    const { mtimeMs, size } = statSync(join(release, RELEASE_FILE));
    const place = relative(this.#directory, release);
    const inputs = [
      FORMAT,
      this.#heapMb,
      this.#around,
      textsHash(),
      this.#cacheMb,
      this.#uiUrl(),
      this.#reloads,
      this.#timesCalls,
      this.#cronSeconds,
      internetService(this.#around.egress),
      AUTHORITIES && [AUTHORITIES, statSync(AUTHORITIES, { throwIfNoEntry: false })?.mtimeMs],
      place,
      mtimeMs,
      size,
      vars,
      hasOutbound,
      ...secrets,
    ];
    const hash = createHash('sha256').update(JSON.stringify(inputs)).digest('hex').slice(0, 16);
    return `${PREFIX}${basename(release)}-${hash}`;
  }

  async #write(release: string, directory: string, given: Given): Promise<void> {
    const order = {
      release,
      directory,
      ...given,
      heapMb: this.#heapMb,
      ...this.#around,
      authorities: AUTHORITIES,
      uiUrl: this.#uiUrl(),
      reloads: this.#reloads,
      cacheMb: this.#cacheMb,
      timesCalls: this.#timesCalls,
      cronSeconds: this.#cronSeconds,
    };
    await threads.run<typeof writer.writeCellFiles>(WRITER, 'writeCellFiles', [order], {
      deadlineMs: WRITE_TIMEOUT_MS,
      key: this.#directory,
    });
    await this.#removeOthers(directory);
  }

  /**
   * Removes all directories of files, except `directory` and that of the previous launch, which is needed if the new release
   * does not start. Running processes have already read their files.
   */
  async #removeOthers(directory: string): Promise<void> {
    const kept = [directory, this.#last && join(this.#last.config, '..')];
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name);
      if (name.startsWith(PREFIX) && !kept.includes(path)) await rm(path, { recursive: true, force: true });
    }
  }
}
