// `cellar dev`: the app of a folder in the cell, config and gateway of production, on storage below the folder. There is no
// control plane, and everything runs as the user who started it.
import { existsSync, realpathSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { BuildFailure } from '../../bundler/failure.ts';
import { OutwardServices } from '../apps/outward-services.ts';
import { Closing } from '../closing.ts';
import { readSetting } from '../config.ts';
import { Gateway, type RequestHead, type Target } from '../edge/gateway.ts';
import { headerValue } from '../edge/http/fields.ts';
import { Fleet } from '../fleets/fleet.ts';
import { MemoryGauge } from '../fleets/memory.ts';
import { Slots } from '../fleets/slots.ts';
import { toSourcePlaces } from '../fleets/source-places.ts';
import { spares, workerdPath } from '../fleets/start-cell.ts';
import { throwTrialsAway } from '../fleets/trial.ts';
import { WakeFigures } from '../fleets/wake-figures.ts';
import { reason } from '../log.ts';
import { DATA_DIRECTORY_MAX, type Layout, layoutOf, writeAtomic } from '../machine/data-directory.ts';
import { threads } from '../machine/worker.ts';
import { unpackCopy } from '../storage/copy-stream.ts';
import { Buckets } from '../storage/r2/buckets.ts';
import { failurePage, isLocalHost, STRANGER } from './answers.ts';
import { DebuggerDoor } from './debugger-door.ts';
import { claimFolder, keptDirectory, shortcutTo } from './kept.ts';
import { type Made, Project } from './project.ts';
import { RELOAD_PATH, Reloads } from './reloads.ts';
import { runCron, SCHEDULED_PATH } from './scheduled.ts';
import { Terminal } from './terminal.ts';
import { isVariables, readVariables } from './variables.ts';
import { missingHere, secretWarnings } from './warnings.ts';
import { Watch } from './watch.ts';

/** The app's id: there is one in a folder. */
const APP = 'development00000';
const CELL_MB = 512;
const START_TIMEOUT_MS = 30_000;
const TICK_MS = 1_000;
/** How long a change waits for requests in flight, in ms. */
const DRAIN_MS = 200;
const HOLD_TIMEOUT_MS = 60_000;
const CLOSE_GRACE_MS = 200;

export interface DevOptions {
  /** The project's folder. */
  folder: string;
  /** 0: any free port; null: the usual one, or any free port when that is in use. */
  port: number | null;
  /** Port of a debugger on loopback; null: none. */
  inspect: number | null;
  /** The environment of the Wrangler configuration; null: the top level. */
  environment: string | null;
  /** Whether it works on a copy of what the deployed app keeps, which `start` is given. */
  isOnCopy: boolean;
}

const USUAL_PORT = 8787;
/** The socket for pages that load again, below the kept directory. */
const RELOADS = 'reloads.sock';
/** The storage names of the app, likewise. */
const NAMES = 'storage-names.json';

export class Dev {
  readonly #options: DevOptions;
  readonly #folder: string;
  readonly #paths: Layout;
  readonly #release: () => void;
  readonly #shortcut: string | null;
  readonly #terminal: Terminal;
  readonly #project: Project;
  readonly #fleet: Fleet;
  readonly #memory = new MemoryGauge(0, CELL_MB);
  readonly #buckets: Buckets;
  readonly #outward: OutwardServices;
  readonly #gateway: Gateway;
  /** Null when no debugger is let in. */
  readonly #debugger: DebuggerDoor | null;
  #reloads: Reloads | null = null;
  #watch: Watch | null = null;
  #tick: NodeJS.Timeout | undefined;
  #variables: Record<string, string> = {};
  /** The variables of the version that serves. */
  #served: Record<string, string> | null = null;
  /** The last warning of bindings that lead to nothing here. */
  #missing = '';
  /** Paths that have changed since the last version was made; null when all files are to be looked at. */
  #changed: string[] | null = null;
  /** The version that is being made. */
  #making: AbortController | null = null;
  #work: Promise<void> = Promise.resolve();
  /** Settles when the version that serves has been tried as a deploy does. */
  #trial: Promise<void> = Promise.resolve();
  /** What is wrong with the newest version; null when it serves. */
  #failure: string | null = null;
  /** Settles when the first version serves, or does not. */
  readonly #first = Promise.withResolvers<void>();
  #closing = false;

  /** @throws {Error} when another `cellar dev` has the folder, or `RUNNER_EGRESS_ALLOW` or a setting of the AI server is wrong */
  constructor(options: DevOptions) {
    const egress = readSetting('RUNNER_EGRESS_ALLOW', process.env);
    const url = readSetting('RUNNER_AI_URL', process.env);
    const key = readSetting('RUNNER_AI_KEY', process.env);
    const models = readSetting('RUNNER_AI_MODELS', process.env);
    this.#options = options;
    this.#folder = realpathSync(options.folder);
    const kept = keptDirectory(this.#folder, options.isOnCopy ? 'copy' : 'dev');
    this.#shortcut = Buffer.byteLength(kept) > DATA_DIRECTORY_MAX ? shortcutTo(kept) : null;
    this.#paths = layoutOf(this.#shortcut ?? kept);
    const paths = this.#paths;
    try {
      this.#release = claimFolder(paths);
    } catch (error) {
      this.#removeShortcut();
      throw error;
    }
    // A copy is made anew at each start.
    if (options.isOnCopy)
      for (const path of [paths.data(APP), paths.allBuckets, join(paths.root, NAMES)])
        rmSync(path, { recursive: true, force: true });
    throwTrialsAway(paths);
    this.#terminal = new Terminal(paths.allReleases);
    this.#project = new Project({
      folder: this.#folder,
      appId: APP,
      paths,
      names: join(paths.root, NAMES),
      environment: options.environment,
      onStep: (words, ms) => this.#terminal.say(`${words} in ${took(ms)}`, 'dim'),
      onLine: (line) => this.#terminal.say(line, 'dim'),
    });
    this.#debugger = options.inspect === null ? null : new DebuggerDoor();
    const own = { build: null, cell: null };
    this.#buckets = new Buckets({ paths, users: () => own, service: { maxMb: 0, floorMb: 0 } });
    const ai = url === '' ? null : { url, key, models };
    this.#outward = new OutwardServices({ paths, users: () => own, ai, mail: null });
    this.#fleet = new Fleet({
      appId: APP,
      directories: { run: paths.run(APP), data: paths.data(APP) },
      workerd: workerdPath(),
      user: null,
      idleMs: Number.POSITIVE_INFINITY,
      memoryMb: CELL_MB,
      drainMs: DRAIN_MS,
      lastRequestAt: null,
      slots: new Slots(1, START_TIMEOUT_MS),
      memory: this.#memory,
      secrets: () => this.#variables,
      buckets: this.#buckets.access(APP),
      outward: this.#outward.access(APP),
      egress,
      uiUrl: () => '',
      development: { onInspector: this.#debugger && ((port) => this.#debugger!.leadTo(port)) },
      wakes: new WakeFigures(),
      wake: () => Promise.reject(new Error('it does not sleep here')),
      output: (deployId) => this.#terminal.output(APP, deployId),
      say: (level, words) => {
        if (level !== 'info') this.#terminal.say(words, level === 'error' ? 'red' : 'yellow');
      },
      onFailure: () => {},
      onState: () => {},
      onRest: () => {},
    });
    this.#gateway = new Gateway({ resolve: (head) => this.#resolve(head), holdTimeoutMs: HOLD_TIMEOUT_MS });
    this.#gateway.onEnd((record) => {
      if (record.path !== RELOAD_PATH) this.#terminal.request(record);
    });
  }

  /**
   * Serves, and goes on with each save. Resolves with the address when the first version serves, or has failed.
   * @param copied what the app begins with, as `copy-stream.ts` writes it; null for what is kept
   */
  async start(copied: AsyncIterable<Buffer> | null): Promise<string> {
    const from = performance.now();
    if (copied !== null) await this.#placeCopy(copied);
    const port = await this.#listen();
    const url = `http://localhost:${port}`;
    this.#reloads = await Reloads.start(join(this.#paths.root, RELOADS));
    const inspector = (await this.#debugger?.listen(this.#options.inspect!)) ?? null;
    this.#readVariables();
    this.#watch = new Watch(
      this.#folder,
      (paths) => this.#saved(paths),
      (error) => this.#terminal.fail(`the folder is not watched any more: ${error.message}`),
      () => this.#project.hasBuild,
    );
    this.#tick = setInterval(() => {
      void this.#memory.sample();
      this.#fleet.tick();
    }, TICK_MS);
    this.#next('');
    await this.#first.promise;
    const state =
      this.#failure === null
        ? `after ${took(performance.now() - from)}`
        : 'serves as soon as a save mends this, and says what is wrong until then';
    this.#terminal.say(`${url} ${state}; Ctrl-C ends it, and what the app keeps stays in .cellar/`, 'bold');
    if (inspector !== null)
      this.#terminal.say(`a debugger finds it at 127.0.0.1:${inspector} (chrome://inspect, or your editor)`);
    return url;
  }

  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    const closing = new Closing();
    clearInterval(this.#tick);
    this.#watch?.close();
    this.#making?.abort(new Error('it was ended'));
    await closing.step('pages', () => this.#reloads?.close());
    await closing.step('debugger', () => this.#debugger?.close());
    await closing.step('gateway', () => this.#gateway.close(CLOSE_GRACE_MS));
    await closing.step('bundler', () => this.#project.close());
    await closing.step('app', () => this.#fleet.close());
    await closing.step('work', () => Promise.all([this.#work, this.#trial]));
    await closing.step('spare processes', () => spares.close());
    await closing.step('buckets', () => this.#buckets.close());
    await closing.step('outward services', () => this.#outward.close());
    await closing.step('log', () => this.#terminal.close());
    await closing.step('threads', () => threads.close());
    await closing.step('folder', this.#release);
    await closing.step('shortcut', () => this.#removeShortcut());
    closing.throwFirst();
  }

  #removeShortcut(): void {
    if (this.#shortcut !== null) rmSync(dirname(this.#shortcut), { recursive: true, force: true });
  }

  async #listen(): Promise<number> {
    const { port } = this.#options;
    let taken: number;
    try {
      taken = await this.#gateway.listen(port ?? USUAL_PORT, '127.0.0.1');
    } catch (error) {
      if (port !== null || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
      taken = await this.#gateway.listen(0, '127.0.0.1');
      this.#terminal.say(`port ${USUAL_PORT} is in use`, 'yellow');
    }
    // Browsers may take `localhost` for the IPv4 or the IPv6 address. A machine may have no IPv6.
    await this.#gateway.listen(taken, '::1').catch(() => {});
    return taken;
  }

  /** Other host names are refused: a page could use one that leads to this machine to read the app's answers (DNS rebinding). */
  #resolve(head: RequestHead): Target {
    if (!isLocalHost(head.host)) return { kind: 'respond', respond: () => ({ refusal: STRANGER }) };
    if (head.path === RELOAD_PATH && this.#reloads !== null)
      return { kind: 'proxy', backend: this.#reloads.backend };
    if (head.path === SCHEDULED_PATH && this.#fleet.liveDeployId !== null)
      return {
        kind: 'respond',
        respond: () =>
          headerValue(head.headers, 'sec-fetch-site') === 'cross-site'
            ? { refusal: STRANGER }
            : runCron(this.#fleet, new URL(head.target, 'http://localhost')),
      };
    if (this.#fleet.liveDeployId !== null) return { kind: 'proxy', backend: this.#fleet };
    return {
      kind: 'respond',
      respond: async () => {
        await this.#first.promise;
        return failurePage(this.#failure ?? 'Load the page again: the app serves now.');
      },
    };
  }

  #saved(paths: string[]): void {
    if (this.#closing) return;
    if (paths.some(isVariables)) this.#readVariables();
    this.#changed?.push(...paths);
    // The version that is being made is out of date.
    this.#making?.abort(new Error('there is a newer save'));
    this.#next(this.#shown(paths));
  }

  /** What was done to files, in words. */
  #shown(paths: string[]): string {
    const { saved = [], removed = [] } = Object.groupBy(paths, (path) =>
      existsSync(join(this.#folder, path)) ? 'saved' : 'removed',
    );
    const words = (of: string[], what: string) =>
      of.length === 0
        ? []
        : [`${of.slice(0, 3).join(', ')}${of.length > 3 ? ` and ${of.length - 3} more` : ''} ${what}`];
    return [...words(saved, 'saved'), ...words(removed, 'removed')].join('; ');
  }

  #readVariables(): void {
    this.#variables = readVariables(this.#folder, this.#options.environment, (words) =>
      this.#terminal.say(words, 'yellow'),
    );
  }

  /** Makes the next version when the one before has ended. @param why what was saved; empty at the start */
  #next(why: string): void {
    const making = new AbortController();
    this.#making = making;
    this.#work = this.#work.then(async () => {
      if (making.signal.aborted) return;
      if (why !== '') this.#terminal.say(why, 'dim');
      await this.#make(making.signal);
      await this.#project.tidy().catch(() => {});
      if (!making.signal.aborted) this.#first.resolve();
    });
  }

  async #make(signal: AbortSignal): Promise<void> {
    const from = performance.now();
    const changed = this.#changed;
    this.#changed = [];
    try {
      const made = await this.#project.make(changed, signal);
      await this.#serve(made, from);
      this.#failure = null;
    } catch (error) {
      // The next version also looks at the changes of one that was given up, and after a failure at all files.
      this.#changed = signal.aborted && changed !== null ? [...changed, ...(this.#changed ?? [])] : null;
      if (!signal.aborted) this.#failed(error);
    }
  }

  async #serve(made: Made, from: number): Promise<void> {
    const variables = this.#variables;
    if (this.#project.isSame(made) && variables === this.#served && this.#failure === null) {
      this.#terminal.say('it makes no difference to the app, which runs on', 'dim');
      return;
    }
    this.#warn(made);
    const started = performance.now();
    try {
      await this.#fleet.swap(made, {
        commit: () => this.#project.serves(made),
        log: (line) => this.#terminal.say(line, 'dim'),
        isUntried: true,
      });
    } catch (error) {
      throw new NotStarted(await toSourcePlaces(made.directory, reason(error)));
    }
    this.#served = variables;
    this.#terminal.say(`started in ${took(performance.now() - started)}`, 'dim');
    this.#terminal.say(`serves what is saved, after ${took(performance.now() - from)}`, 'green');
    this.#reloads?.tell(made.deployId);
    this.#trial = this.#try(made);
  }

  /** Says what a deploy would say or refuse of a version that serves. Never rejects. */
  async #try(made: Made): Promise<void> {
    const words = await this.#fleet
      .try(made)
      .catch((error: unknown) => [`a deploy of this fails: ${reason(error)}`]);
    if (this.#closing || this.#fleet.liveDeployId !== made.deployId) return;
    for (const each of words) this.#terminal.say(each, 'yellow');
  }

  #failed(error: unknown): void {
    const words = reason(error);
    this.#failure = words;
    const old = this.#fleet.liveDeployId === null ? '' : '\nThe version before answers on.';
    const what = error instanceof BuildFailure ? 'the build failed' : 'it does not start';
    this.#terminal.fail(`${what}: ${words}${old}`);
    if (this.#fleet.liveDeployId === null) this.#reloads?.tell(`failed ${Date.now()}`);
  }

  /** The folder's app finds what the deployed one keeps by its storage names. */
  async #placeCopy(copied: AsyncIterable<Buffer>): Promise<void> {
    const places = { data: this.#paths.data(APP), buckets: this.#paths.buckets(APP) };
    const { names, files } = await unpackCopy(copied, places);
    writeAtomic(join(this.#paths.root, NAMES), JSON.stringify(names));
    this.#terminal.say(`begins with a copy of all that the deployed app keeps (${files} files)`);
  }

  #warn({ release }: Made): void {
    const warnings = secretWarnings(release, Object.keys(this.#variables));
    const missing = missingHere(release, this.#outward.access(APP).ai !== undefined);
    // Said again only when it has changed.
    if (missing !== '' && missing !== this.#missing) warnings.push(missing);
    this.#missing = missing;
    for (const words of warnings) this.#terminal.say(words, 'yellow');
  }
}

/** A version that was built and does not start. */
class NotStarted extends Error {}

function took(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${(ms / 1_000).toFixed(1)} s`;
}
