// `cellar dev`: runs the app of a folder with the process, config and gateway of production, and with storage below the folder.
// There is no control plane, and everything runs as the current user.
import { realpathSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { OutwardServices } from '../apps/outward-services.ts';
import { Shutdown } from '../closing.ts';
import { readSetting } from '../config.ts';
import { DATA_DIRECTORY_MAX, type Layout, layoutOf, writeAtomic } from '../disk/data-directory.ts';
import { Gateway, type RequestHead, type Target } from '../edge/gateway.ts';
import { headerValue } from '../edge/http/head/fields.ts';
import type { Backend } from '../edge/upstream/backend.ts';
import { MemoryGauge } from '../fleets/admission/memory.ts';
import { Slots } from '../fleets/admission/slots.ts';
import { WakeFigures } from '../fleets/admission/wake-figures.ts';
import { Fleet } from '../fleets/life/fleet.ts';
import { trashTrials } from '../fleets/life/trial.ts';
import { workerdPath } from '../fleets/process/start-cell.ts';
import { unpackCopy } from '../storage/copy-stream.ts';
import { Buckets } from '../storage/r2/buckets.ts';
import { threads } from '../threads/worker.ts';
import { isLocalHost, NOT_YET, RELOAD_PATH, UNKNOWN_HOST } from './answers.ts';
import { DebuggerProxy } from './debugger-proxy.ts';
import { EMAIL_PATH, Emails } from './emails.ts';
import { claimFolder, keptDirectory, shortcutTo } from './kept.ts';
import { Project } from './project/project.ts';
import { Versions } from './project/versions.ts';
import { Watch } from './project/watch.ts';
import { Reloads } from './reloads.ts';
import { runCron, SCHEDULED_PATH } from './scheduled.ts';
import { devServices } from './services.ts';
import { Terminal, took } from './terminal.ts';

/** The app's id: a folder has one app. */
const APP = 'development00000';
const CELL_MB = 512;
const START_TIMEOUT_MS = 30_000;
const TICK_MS = 1_000;
/** How long a change waits for requests in flight, in ms. */
const DRAIN_MS = 200;
/** How long a request may be queued, in ms: the first version may need a build, whose steps time out after 10 minutes each. */
const HOLD_TIMEOUT_MS = 20 * 60_000;
const CLOSE_GRACE_MS = 200;

export interface DevOptions {
  folder: string;
  /** 0: any free port; null: the default port, or any free one when that is in use. */
  port: number | null;
  /** Port for a debugger on loopback; null for none. */
  inspect: number | null;
  /** The environment of the Wrangler configuration; null for the top level. */
  environment: string | null;
  /** Whether it works on a copy of the deployed app's storage, which `start` receives. */
  isOnCopy: boolean;
}

const USUAL_PORT = 8787;
/** Socket of the reload stream, in `.cellar/dev/` or `.cellar/copy/`. */
const RELOADS = 'reloads.sock';
/** Sockets for e-mails, beside `RELOADS`. The developer's e-mails arrive at `asked`; `app` leads them to the app. */
const EMAILS = { asked: 'emails.sock', app: 'email-app.sock' };
/** Socket for the app's calls to Cellar's services, such as secrets, beside `RELOADS`. */
const SERVICES = 'services.sock';
/** File with the app's storage names, beside `RELOADS`. */
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
  readonly #versions: Versions;
  readonly #gateway: Gateway;
  /** Null without a debugger port. */
  readonly #debugger: DebuggerProxy | null;
  #reloads: Reloads | null = null;
  #emails: Emails | null = null;
  /** Queues requests until the first version has started or failed. While no version is live, responds with the failure. */
  readonly #app: Backend;
  #watch: Watch | null = null;
  #tick: NodeJS.Timeout | undefined;
  #closing = false;

  /** @throws {Error} when another `cellar dev` uses the folder, or `RUNNER_EGRESS_ALLOW` or an AI server setting is invalid */
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
    // Each start gets a fresh copy.
    if (options.isOnCopy)
      for (const path of [paths.data(APP), paths.allBuckets, join(paths.root, NAMES)])
        rmSync(path, { recursive: true, force: true });
    trashTrials(paths);
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
    this.#debugger = options.inspect === null ? null : new DebuggerProxy();
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
      cronSeconds: true,
      drainMs: DRAIN_MS,
      lastRequestAt: null,
      owner: () => 'developer',
      slots: new Slots(1, START_TIMEOUT_MS),
      memory: this.#memory,
      secrets: () => this.#versions.variables,
      buckets: this.#buckets.access(APP),
      services: devServices(
        join(paths.root, SERVICES),
        () => this.#gateway,
        () => this.#versions.variables,
      ),
      hostServices: { ...this.#outward.access(APP), vectors: this.#buckets.vectors(APP) },
      egress,
      uiUrl: () => '',
      development: { onInspector: this.#debugger && ((port) => this.#debugger!.leadTo(port)) },
      wakes: new WakeFigures(),
      output: (deployId) => this.#terminal.output(APP, deployId),
      say: (level, words) => {
        if (level !== 'info') this.#terminal.say(words, level === 'error' ? 'red' : 'yellow');
      },
      onFailure: () => {},
      onState: () => {},
      onAsleep: () => {},
      onRest: async () => {},
    });
    this.#versions = new Versions({
      folder: this.#folder,
      environment: options.environment,
      project: this.#project,
      fleet: this.#fleet,
      terminal: this.#terminal,
      hasAi: ai !== null,
      onChange: (text) => this.#reloads?.notify(text),
    });
    this.#app = {
      site: this.#fleet.site,
      admit: () => {
        if (this.#versions.isFirst) return { kind: 'hold', ready: this.#versions.first };
        return (this.#fleet.liveDeployId === null ? this.#reloads!.backend : this.#fleet).admit();
      },
    };
    this.#gateway = new Gateway({ resolve: (head) => this.#resolve(head), holdTimeoutMs: HOLD_TIMEOUT_MS });
    this.#gateway.onEnd((record) => {
      if (record.path !== RELOAD_PATH) this.#terminal.request(record);
    });
  }

  /**
   * Starts to serve, and to rebuild after each save. Resolves with the URL when the first version has started or failed.
   * @param copied the initial storage in the format of `copy-stream.ts`; null to keep the existing storage
   */
  async start(copied: AsyncIterable<Buffer> | null): Promise<string> {
    const from = performance.now();
    this.#reloads = await Reloads.start(
      join(this.#paths.root, RELOADS),
      () => this.#versions.failure ?? 'The app runs now: load the page again.',
    );
    this.#emails = await Emails.start({
      sockets: { asked: join(this.#paths.root, EMAILS.asked), app: join(this.#paths.root, EMAILS.app) },
      gateway: this.#gateway,
      app: this.#fleet,
      say: (words) => this.#terminal.say(words, 'dim'),
    });
    const port = await this.#listen();
    const url = `http://localhost:${port}`;
    if (copied !== null) await this.#placeCopy(copied);
    const inspector = (await this.#debugger?.listen(this.#options.inspect!)) ?? null;
    this.#watch = new Watch(
      this.#folder,
      (paths) => this.#versions.saved(paths),
      (error) =>
        this.#terminal.fail(
          `watching the folder failed, so some saved changes may not be noticed: ${error.message}. Start cellar dev again.`,
        ),
      () => (this.#project.hasBuild ? this.#project.folder : null),
    );
    this.#tick = setInterval(() => {
      void this.#memory.sample();
      this.#fleet.tick();
    }, TICK_MS);
    this.#versions.start();
    await this.#versions.first;
    const state =
      this.#versions.failure === null
        ? `after ${took(performance.now() - from)}`
        : 'shows the error above until a saved change corrects it';
    this.#terminal.say(`${url} ${state}; Ctrl-C stops the app; its storage stays in .cellar/`, 'bold');
    if (inspector !== null)
      this.#terminal.say(
        `a debugger can connect to 127.0.0.1:${inspector} (chrome://inspect, or your editor)`,
      );
    return url;
  }

  async close(): Promise<void> {
    if (this.#closing) return;
    this.#closing = true;
    const closing = new Shutdown();
    clearInterval(this.#tick);
    this.#watch?.close();
    this.#versions.end();
    await closing.step('pages', () => this.#reloads?.close());
    await closing.step('e-mails', () => this.#emails?.close());
    await closing.step('debugger', () => this.#debugger?.close());
    await closing.step('gateway', () => this.#gateway.close(CLOSE_GRACE_MS));
    await closing.step('bundler', () => this.#project.close());
    await closing.step('app', () => this.#fleet.close());
    await closing.step('work', () => this.#versions.settled());
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
    try {
      return await this.#gateway.listenLocalhost(port ?? USUAL_PORT);
    } catch (error) {
      if (port !== null || (error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    }
    this.#terminal.say(`port ${USUAL_PORT} is in use`, 'yellow');
    return this.#gateway.listenLocalhost(0);
  }

  /** Refuses foreign host names: with DNS rebinding, a website could use one to read the app's responses. */
  #resolve(head: RequestHead): Target {
    if (!isLocalHost(head.host)) return { kind: 'respond', respond: () => ({ refusal: UNKNOWN_HOST }) };
    if (head.path === RELOAD_PATH && this.#reloads !== null)
      return { kind: 'proxy', backend: this.#reloads.backend };
    if (head.path !== SCHEDULED_PATH && head.path !== EMAIL_PATH)
      return { kind: 'proxy', backend: this.#app };
    if (headerValue(head.headers, 'sec-fetch-site') === 'cross-site')
      return { kind: 'respond', respond: () => ({ refusal: UNKNOWN_HOST }) };
    if (head.path === EMAIL_PATH) return { kind: 'proxy', backend: this.#emailBackend };
    return {
      kind: 'respond',
      respond: async () => {
        await this.#versions.first;
        if (this.#fleet.liveDeployId === null) return { refusal: NOT_YET };
        return runCron(this.#fleet, new URL(head.target, 'http://localhost'));
      },
    };
  }

  /** The backend for e-mails. While no version is live, it queues or answers requests as `#app` does. */
  get #emailBackend(): Backend {
    const { backend } = this.#emails!;
    const admit = () => (this.#fleet.liveDeployId === null ? this.#app.admit() : backend.admit());
    return { site: backend.site, admit };
  }

  /** Unpacks the copy, with the storage names by which the folder's app finds the deployed app's storage. */
  async #placeCopy(copied: AsyncIterable<Buffer>): Promise<void> {
    const places = { data: this.#paths.data(APP), buckets: this.#paths.buckets(APP) };
    const { names, files } = await unpackCopy(copied, places);
    writeAtomic(join(this.#paths.root, NAMES), JSON.stringify(names));
    this.#terminal.say(`starts with a copy of the data of the deployed app (${files} files)`);
  }
}
