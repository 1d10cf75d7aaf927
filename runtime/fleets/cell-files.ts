// The files that workerd is started with: its config and the Worker's entry. They are written at launch, from the release's
// description, and kept for the next launch. So a release of long ago gets what this Cellar can do.
import { createHash } from 'node:crypto';
import { existsSync, statSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { basename, join, relative } from 'node:path';
import { assetRules } from '../../bundler/assets.ts';
import { type Module, RELEASE_FILE, type Release } from '../../bundler/release.ts';
import { publish } from '../machine/publish.ts';
import { cellConfig } from './config/cell-config.ts';
import {
  CAPTURE,
  CAPTURE_WORKER,
  ENTRY,
  ENTRY_TEXTS,
  entryModule,
  PAGE,
  pageModule,
} from './config/entry.ts';
import { internetService } from './config/network.ts';
import { inRoom } from './room.ts';

/** To be raised with every change of what is written, but for the entry's texts and the network's rules, which are hashed. */
const FORMAT = 3;

/** Share of a process's memory that the JavaScript heap may have: the rest is for buffers, SQLite and workerd itself. */
const HEAP_SHARE = 0.75;

/** Longest source map that a process is given for its pages. */
const MAP_BYTES = 8 * 2 ** 20;

const CONFIG = 'cell.capnp';
const TRIAL_CONFIG = 'trial.capnp';
const LAUNCH = 'launch.json';
/** Where nothing listens, nor ever will: a release that is only tried must not reach the app's buckets. */
const NO_SOCKET = '/dev/null/none';
/** How the directories of these files begin, beside an app's sockets. */
const PREFIX = 'cell-';

/** What a launch needs of a release. */
export interface CellFiles {
  /** Paths of the config that serves, and of the one that the release is tried with. */
  config: string;
  trialConfig: string;
  databases: Release['databases'];
  /** Whether it has buckets, which the host's bucket service keeps. */
  hasBuckets: boolean;
}

/** The files of one app's releases, of those that it launched last. */
export class CellFilesCache {
  readonly #directory: string;
  readonly #heapMb: number;
  readonly #bucketSocket: string;
  readonly #apiUrl: () => string | null;
  #last: CellFiles | null = null;

  /**
   * @param directory where they lie: the app's own, and only the host's to change
   * @param memoryMb what a process may use, in MiB
   * @param bucketSocket where the bucket service answers this app
   * @param apiUrl where the API answers, as browsers are told that meet an error of the app; null: they are told nothing
   */
  constructor(
    directory: string,
    memoryMb: number,
    bucketSocket: string = NO_SOCKET,
    apiUrl: () => string | null = () => null,
  ) {
    this.#apiUrl = apiUrl;
    this.#directory = directory;
    this.#bucketSocket = bucketSocket;
    this.#heapMb = Math.floor(memoryMb * HEAP_SHARE);
  }

  /**
   * The files of the release in a directory, for a process that has secrets of these names. Nothing is read or written when they were asked for just before.
   * @throws {NoTurn} when the host has no room for another process
   * @throws {Error} when the release's description is missing, or names a path outside of it
   */
  of(release: string, secrets: string[] = []): Promise<CellFiles> {
    return inRoom(() => this.#find(release, secrets));
  }

  async #find(release: string, secrets: string[]): Promise<CellFiles> {
    const directory = join(this.#directory, this.#nameFor(release, secrets));
    const config = join(directory, CONFIG);
    const exists = existsSync(config);
    if (exists && this.#last?.config === config) return this.#last;
    if (!exists) await this.#write(release, directory, secrets);
    const launch = JSON.parse(await readFile(join(directory, LAUNCH), 'utf8')) as Launch;
    const { hasTrial, databases, hasBuckets } = launch;
    this.#last = {
      config,
      trialConfig: hasTrial ? join(directory, TRIAL_CONFIG) : config,
      databases,
      hasBuckets,
    };
    return this.#last;
  }

  /** Names all that the files depend on. A release that was made anew at the same path has another description. */
  #nameFor(release: string, secrets: string[]): string {
    const { mtimeMs, size } = statSync(join(release, RELEASE_FILE));
    const place = relative(this.#directory, release);
    const inputs = [
      FORMAT,
      this.#heapMb,
      this.#bucketSocket,
      ENTRY_TEXTS,
      this.#apiUrl(),
      internetService(),
      place,
      mtimeMs,
      size,
      ...secrets,
    ];
    const hash = createHash('sha256').update(JSON.stringify(inputs)).digest('hex').slice(0, 16);
    return `${PREFIX}${basename(release)}-${hash}`;
  }

  async #write(path: string, directory: string, secrets: string[]): Promise<void> {
    const release = JSON.parse(await readFile(join(path, RELEASE_FILE), 'utf8')) as Release;
    const beside = `${directory}.new`;
    await rm(beside, { recursive: true, force: true });
    await mkdir(beside, { recursive: true, mode: 0o700 });
    const write = (name: string, text: string) => writeFile(join(beside, name), text, { mode: 0o600 });
    const { worker, exports, assets, databases, buckets = [] } = release;
    // A build of before left them in the directory alone.
    const rules = assets === null ? {} : (assets.rules ?? assetRules(join(path, assets.directory)));
    const toRelease = relative(directory, path);
    const apiUrl = this.#apiUrl();
    const pageMaps = apiUrl === null || worker === null ? null : mapsOf(path, worker.modules);
    const options = { toRelease, rules, secrets, pageMaps, heapMb: this.#heapMb };
    const hasBuckets = buckets.length > 0;
    const hasTrial = release.triggers !== undefined || hasBuckets;
    await write(
      CONFIG,
      cellConfig(release, { ...options, isTrial: false, bucketSocket: this.#bucketSocket }),
    );
    if (hasTrial)
      await write(TRIAL_CONFIG, cellConfig(release, { ...options, isTrial: true, bucketSocket: NO_SOCKET }));
    if (worker !== null) {
      await write(ENTRY, entryModule(worker, exports, apiUrl !== null));
      await write(CAPTURE, CAPTURE_WORKER);
      if (apiUrl !== null) await write(PAGE, pageModule(apiUrl));
    }
    await write(LAUNCH, JSON.stringify({ hasTrial, databases, hasBuckets } satisfies Launch));
    await publish(beside, directory);
    await this.#removeOthers(directory);
  }

  /** Keeps the release before, which serves again when this one does not start. A process has read its files long since. */
  async #removeOthers(directory: string): Promise<void> {
    const kept = [directory, this.#last && join(this.#last.config, '..')];
    for (const name of await readdir(this.#directory)) {
      const path = join(this.#directory, name);
      if (name.startsWith(PREFIX) && !kept.includes(path)) await rm(path, { recursive: true, force: true });
    }
  }
}

/** The modules that have a source map which a process may keep. */
function mapsOf(release: string, modules: Module[]): Module[] {
  return modules.filter(({ path }) => {
    const map = statSync(join(release, `${path}.map`), { throwIfNoEntry: false });
    return map?.isFile() === true && map.size <= MAP_BYTES;
  });
}

/** Kept with the files. */
interface Launch extends Pick<CellFiles, 'databases' | 'hasBuckets'> {
  hasTrial: boolean;
}
