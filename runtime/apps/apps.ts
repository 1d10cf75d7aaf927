// Every app on this host: what is wanted of it, its fleet, and the hosts it answers at.
import { EventEmitter, once } from 'node:events';
import type { ListedApp, ObservedApp, ProcessState, WantedApp } from '../../handlers/contract/host-calls.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import { Fleet, type FleetUsage, type ReleaseRef } from '../fleets/fleet.ts';
import type { LeasedCell } from '../fleets/leasing.ts';
import type { MemoryGauge } from '../fleets/memory.ts';
import type { ServiceAccess } from '../fleets/service-access.ts';
import type { Slots } from '../fleets/slots.ts';
import type { ProcessFailure } from '../fleets/supervisor.ts';
import type { WakeFigures } from '../fleets/wake-figures.ts';
import { createRepository } from '../git/repository.ts';
import { type Level, log, logRarely, reason } from '../log.ts';
import type { Layout } from '../machine/data-directory.ts';
import { endProcessesOf } from '../machine/leftovers.ts';
import type { OutputSink } from '../machine/output-sink.ts';
import { removeTree } from '../machine/remove.ts';
import { throwAway } from '../machine/trash.ts';
import type { AppUsers } from '../machine/users.ts';
import type { Buckets } from '../storage/r2/buckets.ts';
import { KeptActivity } from './kept-activity.ts';
import type { OutwardServices } from './outward-services.ts';
import { previewOf, restsAtLeast } from './preview-app.ts';
import type { Secrets } from './secrets.ts';
import type { LimitedApp } from './storage-limits.ts';

/** Starts at boot that are asked for side by side; what requests ask for meanwhile waits behind no more than these. */
const BOOT_CONCURRENCY = 4;

/** A wanted state older than one that the host has already seen. */
export class StaleGeneration extends Error {}

interface App {
  wanted: WantedApp;
  /** What it shows of which app; null for an app of its own. */
  preview: PreviewRow | null;
  fleet: Fleet;
  liveDeployId: string | null;
  deployedAt: string | null;
  /** The queues that the live release consumes. */
  consumes: string[];
  /** The state that the control plane was told last. */
  toldState: ProcessState | null;
  /** What it should be told could not be written, and is tried again at the next tick. */
  untold: boolean;
  /** Serializes what is done to the app: each wanted state after the one before. */
  work: Promise<unknown>;
}

/** What `Apps` needs of the rest of the host. */
export interface AppsOptions {
  store: HostStore;
  paths: Layout;
  workerd: string;
  /** The users that an app's builds and process run as. */
  users: (appId: string) => AppUsers;
  baseDomain: string;
  /** Quiet time after which an app hibernates, in ms; `Infinity` for never. */
  idleMs: number;
  /** Memory that one app's process may use, in MiB. */
  memoryMb: number;
  /** MiB of responses that the Cache API keeps for each app; 0: none. */
  cacheMb: number;
  slots: Slots;
  memory: MemoryGauge;
  secrets: Secrets;
  buckets: Buckets;
  /** An app's way to others. */
  services: (id: string) => ServiceAccess;
  outward: OutwardServices;
  /** Private addresses and CIDR ranges that apps may reach. */
  egress: readonly string[];
  /** Where the control UI is, while apps are developed here; null where others use them. */
  uiUrl: () => string | null;
  wakes: WakeFigures;
  /** Has the control plane wake an app. Rejects when that fails. */
  wake: (id: string) => Promise<void>;
  /** Where a process of an app's release has its output go. */
  output: (id: string, deployId: string) => OutputSink;
  /** Says something of an app to its owner. */
  say: (id: string, level: Level, words: string) => void;
  /** Called when a release of an app did not start, or its process ended by itself. */
  onFailure: (id: string, failure: ProcessFailure) => void;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
  /** Called at most once a second for each app, with what it has used since the call before. */
  onUsage: (id: string, usage: FleetUsage) => void;
  /** Called with an app's slug, at the start and when there is a new one. */
  onNamed: (id: string, slug: string) => void;
  /** Called when an app was deleted and takes no more requests. */
  onDeleted: (id: string) => void;
}

/** The apps of this host. */
export class Apps {
  readonly #options: AppsOptions;
  readonly #apps = new Map<string, App>();
  readonly #byHost = new Map<string, App>();
  /** Ids of the apps that consume each queue. */
  readonly #consumers = new Map<string, Set<string>>();
  /** An app's id, when there is a new wanted state of it. */
  readonly #wantedStates = new EventEmitter();
  readonly #activity: KeptActivity;

  /** Takes over the apps as they were when the host ended. Each answers from now on, those that ran at their first request. */
  constructor(options: AppsOptions) {
    this.#options = options;
    this.#activity = new KeptActivity(options.store);
    const held = options.store.held.all();
    const takeOver = (app: App, row: { liveDeployId: string | null; deployedAt: string | null }) => {
      app.deployedAt = row.deployedAt;
      app.liveDeployId = row.liveDeployId;
      if (row.liveDeployId !== null) this.#restore(app, row.liveDeployId, held.get(app.wanted.id)?.why);
      // The control plane asks for the states of all apps when it starts: thousands of facts would say nothing else.
      app.toldState = app.fleet.state;
    };
    for (const row of options.store.apps.all()) {
      const app = this.#open(row.wanted);
      takeOver(app, row);
      this.#consume(app, row.consumes);
    }
    for (const row of options.store.previews.all()) {
      const parent = this.#apps.get(row.parentId);
      if (parent && !row.isDeleted) takeOver(this.#openPreview(parent.wanted, row), row);
    }
  }

  /** Starts every app that ran when the host ended. Resolves when all were tried. */
  async resume(): Promise<void> {
    const hibernates = Number.isFinite(this.#options.idleMs);
    const waiting = [...this.#apps.values()].filter(
      ({ wanted, fleet, preview }) =>
        fleet.state === 'idle' &&
        preview === null &&
        !(hibernates && this.#activity.atBoot(wanted.id)?.resting === true),
    );
    const worker = async () => {
      for (let app = waiting.shift(); app; app = waiting.shift())
        await this.#queue(app, () => this.#start(app));
    };
    await Promise.all(Array.from({ length: BOOT_CONCURRENCY }, worker));
  }

  /** To be called about once a second: hibernates quiet apps, gets a process for due work, tells and keeps what changed. */
  tick(): void {
    for (const [id, app] of this.#apps) {
      try {
        app.fleet.tick();
        this.#tellUsage(id, app);
      } catch (error) {
        logRarely('error', 'an app could not be looked at; the next tick tries again', {
          app: app.wanted.slug,
          error: reason(error),
        });
      }
      if (app.untold || app.toldState !== app.fleet.state) this.#tell(id);
    }
    this.#activity.tick(this.#apps.values());
  }

  /** What each app keeps on the disk, and how to stop it. */
  storages(): LimitedApp[] {
    return [...this.#apps].map(([id, { wanted, fleet, preview }]) => ({
      id,
      slug: wanted.slug,
      countedWith: preview === null ? [] : this.#family(preview.parentId).filter((other) => other !== id),
      directories: [this.#options.paths.data(id), this.#options.paths.buckets(id)],
      pid: fleet.pid,
      writtenBytes: fleet.writtenBytes,
      isHeld: fleet.isHeld,
      hold: (why, atOnce) => fleet.hold(why, atOnce),
      letGo: () => fleet.letGo(),
    }));
  }

  /** What each app's process has for itself, in bytes, as last read; null without one. */
  memories(): { id: string; slug: string; memory_bytes: number | null }[] {
    return [...this.#apps].map(([id, { wanted, fleet }]) => ({
      id,
      slug: wanted.slug,
      memory_bytes: fleet.memoryBytes,
    }));
  }

  /** The fleet that answers at a host name (lower case, without port). */
  resolve(host: string): Fleet | undefined {
    return this.#byHost.get(host)?.fleet;
  }

  /** The host names that an app answers at; none for one that is not known. */
  hostsOf(id: string): string[] {
    const app = this.#apps.get(id);
    return app === undefined ? [] : this.#hosts(app.wanted);
  }

  get(id: string): Readonly<App> | undefined {
    return this.#apps.get(id);
  }

  /**
   * Takes over the whole wanted state of an app and brings it about. The same one again changes nothing.
   * @returns what was reached; an app that could not start says so in `last_error`
   * @throws {StaleGeneration} when a newer state is known, or the app was deleted
   */
  async apply(wanted: WantedApp): Promise<ObservedApp> {
    const { store, paths } = this.#options;
    if (wanted.generation < store.apps.generation(wanted.id) || store.apps.isDeleted(wanted.id)) {
      throw new StaleGeneration(
        `generation ${wanted.generation} of app ${wanted.id} is older than what this host knows`,
      );
    }
    // Before anything is awaited: what comes meanwhile must find it.
    store.apps.want(wanted);
    const app = this.#open(wanted);
    this.#wantedStates.emit(wanted.id);
    // Not in its turn: a start that is no longer wanted would have to end by itself first.
    if (wanted.desired_state === 'stopped') app.fleet.giveUpStarts();
    for (const preview of this.previews(wanted.id)) this.#follow(wanted, preview);
    await this.#queue(app, async () => {
      // Deleted while it waited: its belongings have gone, and stay gone.
      if (this.#apps.get(wanted.id) !== app) return;
      await createRepository(paths.repository(wanted.id));
      await this.#reach(app);
    });
    return observe(app);
  }

  /**
   * Adds a preview of an app that is here: an app of this host alone, which the control plane knows nothing of. It is written
   * down when this returns.
   */
  addPreview(row: PreviewRow): void {
    const { store } = this.#options;
    const parent = this.#apps.get(row.parentId)!.wanted;
    store.transaction(() => {
      // What it is to be follows from its parent, as that is when this is read.
      store.apps.want({ ...previewOf(parent, row, this.#options.baseDomain), env: {} });
      store.previews.add(row);
    });
    this.#openPreview(parent, row);
  }

  /** Has a preview show another version from now on, and be kept until another time. */
  renewPreview(row: PreviewRow): void {
    this.#options.store.previews.renew(row.id, row.versionId, row.expiresAt);
    this.#openPreview(this.#apps.get(row.parentId)!.wanted, row);
  }

  /** The previews of an app, the oldest first. */
  previews(id: string): PreviewRow[] {
    return [...this.#apps.values()].flatMap(({ preview }) => (preview?.parentId === id ? preview : []));
  }

  /** The app whose repository, variables and secrets an app has: a preview those of its parent, any other its own. */
  originOf(id: string): string {
    return this.#apps.get(id)?.preview?.parentId ?? id;
  }

  /**
   * Waits until an app is no longer wanted asleep.
   * @returns whether it is not; false after `deadlineMs`, or when `signal` aborts
   */
  async untilAwake(id: string, deadlineMs: number, signal: AbortSignal): Promise<boolean> {
    const ending = AbortSignal.any([AbortSignal.timeout(deadlineMs), signal]);
    while (this.#apps.get(id)?.wanted.asleep) {
      const changed = await once(this.#wantedStates, id, { signal: ending }).catch(() => null);
      if (changed === null) return false;
    }
    return true;
  }

  /**
   * Stops an app and moves all it has to the trash. Also for an app that was never seen.
   * @param options.isKept false: it does not stay in the trash
   */
  async delete(id: string, generation: number, { isKept } = { isKept: true }): Promise<void> {
    const { store, paths } = this.#options;
    if (generation < store.apps.generation(id)) {
      throw new StaleGeneration(`generation ${generation} of app ${id} is older than what this host knows`);
    }
    const app = this.#apps.get(id);
    store.transaction(() => {
      store.apps.delete(id, generation, new Date().toISOString());
      store.secrets.deleteAll(id);
    });
    this.#activity.delete(id);
    if (app) {
      this.#unroute(app);
      this.#consume(app, []);
      this.#apps.delete(id);
      // Not in its turn: a deploy that is being tried is given up.
      const closed = app.fleet.close();
      await this.#queue(app, () => closed);
      const { cell } = this.#options.users(id);
      // Whatever still ran could lead the host astray that removes its files.
      if (cell !== null) await endProcessesOf(cell);
    }
    this.#options.onDeleted(id);
    await this.#options.buckets.forget(id);
    await this.#options.outward.forget(id);
    const place = throwAway(paths.trash, id, {
      'repository.git': paths.repository(id),
      data: paths.data(id),
      buckets: paths.buckets(id),
      releases: paths.releases(id),
      run: paths.run(id),
    });
    if (!isKept) await removeTree(place);
  }

  /**
   * Starts an app's process again where there is one, because what it is given has changed; as `Fleet.renew` says.
   * @throws {Error} why it does not start; what ran before runs on
   */
  async renew(id: string): Promise<boolean> {
    for (const preview of this.previews(id))
      this.renew(preview.id).catch((error: unknown) =>
        this.#say(preview.id, 'error', `it does not start with what has changed: ${reason(error)}`),
      );
    return (await this.#apps.get(id)?.fleet.renew()) ?? false;
  }

  /** Resolves when what was being done to an app's process has ended. */
  async settled(id: string): Promise<void> {
    await this.#apps.get(id)?.fleet.settled();
  }

  /** Has `use` speak with a process of an app, as `Fleet.withCell` says. @throws {Error} when there can be none */
  async withCell<T>(id: string, purpose: string, use: (cell: LeasedCell) => Promise<T>): Promise<T> {
    const app = this.#apps.get(id);
    if (!app) throw new Error('the app was deleted');
    return app.fleet.withCell(purpose, use);
  }

  /** One app as the host sees it; undefined for one that it does not know. */
  observe(id: string): ListedApp | undefined {
    const app = this.#apps.get(id);
    return app && listed(app);
  }

  /** Every app as the host sees it, without previews. */
  observeAll(): ListedApp[] {
    return [...this.#apps.values()].filter(({ preview }) => preview === null).map(listed);
  }

  /**
   * Makes a release the live one. For an app that is stopped, or sleeps, it starts nothing.
   * @param steps.commit writes the pointer, in one transaction with what belongs to it; it gets the app as observed then
   * @param steps.signal gives it up before anything is changed
   * @throws {Error} with workerd's own reason when the release does not start; the one before serves on
   */
  async release(
    id: string,
    deployId: string,
    steps: {
      commit: (at: string, observed: ObservedApp) => void;
      log: (line: string) => void;
      /** The queues that it consumes. */
      consumes?: string[];
      signal?: AbortSignal;
    },
  ): Promise<void> {
    const app = this.#apps.get(id);
    if (!app) throw new Error('the app was deleted');
    await this.#queue(app, async () => {
      const commit = () => {
        const at = new Date().toISOString();
        steps.commit(at, { ...observe(app), live_deploy_id: deployId, deployed_at: at });
        app.liveDeployId = deployId;
        app.deployedAt = at;
        this.#consume(app, steps.consumes ?? []);
      };
      const next = this.#release(id, deployId);
      const { desired_state, asleep } = app.wanted;
      const swap = { ...steps, commit };
      const resting = asleep ? 'asleep' : 'stopped';
      const runs = desired_state === 'running' && !asleep;
      try {
        await (runs ? app.fleet.swap(next, swap) : app.fleet.adopt(next, swap, resting));
      } catch (error) {
        if (steps.signal?.aborted !== true)
          this.#options.onFailure(id, { mechanism: 'load', deployId, reason: reason(error) });
        throw error;
      }
      if (runs) return;
      steps.log(`the app is ${resting}: this release starts when the app does`);
    });
  }

  /** Ids of the other apps of the owner of the app `id` that consume a queue. */
  consumersOf(id: string, queue: string): string[] {
    const owner = this.#apps.get(id)?.wanted.owner;
    if (owner === undefined) return [];
    const all = this.#consumers.get(queue) ?? [];
    return [...all].filter((each) => each !== id && this.#apps.get(each)?.wanted.owner === owner);
  }

  /** Whether an app of that slug has the same owner as the app `id`. */
  hasSibling(id: string, slug: string): boolean {
    const owner = this.#apps.get(id)?.wanted.owner;
    const sibling = this.#apps.get(this.find(slug) ?? '')?.wanted;
    return owner !== undefined && sibling?.slug === slug && sibling.owner === owner;
  }

  /** The id of an app that is here, by its id or slug. */
  find(name: string): string | undefined {
    if (this.#apps.has(name)) return name;
    for (const [id, { wanted }] of this.#apps) if (wanted.slug === name) return id;
    return undefined;
  }

  /**
   * Has `replace` change an app's storage while no process has it; requests are held meanwhile. Then it is as before: what
   * ran runs again.
   * @throws what `replace` throws
   */
  async replaceStorage(id: string, replace: () => Promise<void>): Promise<void> {
    const app = this.#apps.get(id);
    if (!app) throw new Error('the app was deleted');
    await this.#queue(app, () => app.fleet.replaceStorage(replace));
  }

  /** Ends every fleet: drain, then stop. */
  async close(): Promise<void> {
    for (const [id, app] of this.#apps) this.#tellUsage(id, app);
    await Promise.all([...this.#apps.values()].map((app) => app.fleet.close()));
    this.#activity.keep(this.#apps.values());
  }

  #open(wanted: WantedApp, preview: PreviewRow | null = null): App {
    let app = this.#apps.get(wanted.id);
    if (app) this.#unroute(app);
    else {
      app = {
        wanted,
        preview,
        fleet: this.#fleet(wanted, preview),
        liveDeployId: null,
        deployedAt: null,
        consumes: [],
        toldState: null,
        untold: false,
        work: Promise.resolve(),
      };
      this.#apps.set(wanted.id, app);
    }
    if (app.wanted.asleep !== wanted.asleep && wanted.desired_state === 'running')
      log('info', wanted.asleep ? 'app goes to sleep' : 'app wakes', { app: wanted.slug });
    app.wanted = wanted;
    app.preview = preview;
    this.#options.onNamed(wanted.id, wanted.slug);
    for (const host of this.#hosts(wanted)) {
      const other = this.#byHost.get(host);
      // From before two hyphens were kept for previews, an app may have such a slug: its address stays its own.
      if (preview === null || !other || other.preview !== null) this.#byHost.set(host, app);
    }
    return app;
  }

  /** Has a preview be what its parent has become: at its new address, stopped or not. It starts at its next request. */
  #follow(parent: WantedApp, row: PreviewRow): void {
    const preview = this.#openPreview(parent, row);
    const { fleet } = preview;
    if (parent.desired_state === 'stopped') fleet.giveUpStarts();
    this.#queue(preview, async () => {
      const { wanted, liveDeployId } = preview;
      if (liveDeployId === null) return;
      if (wanted.desired_state === 'running') await fleet.rest();
      else await fleet.stop(this.#release(wanted.id, liveDeployId));
    }).catch((error: unknown) =>
      log('error', 'a preview could not follow its app', { app: parent.slug, error: reason(error) }),
    );
  }

  #openPreview(parent: WantedApp, row: PreviewRow): App {
    return this.#open(previewOf(parent, row, this.#options.baseDomain), row);
  }

  /** An app and its previews, by id. */
  #family(id: string): string[] {
    return [id, ...this.previews(id).map((preview) => preview.id)];
  }

  /** Has others find an app that consumes these queues. A preview is no app that others send to. */
  #consume(app: App, queues: string[]): void {
    const { id } = app.wanted;
    if (app.preview !== null) return;
    for (const queue of app.consumes) {
      const consumers = this.#consumers.get(queue);
      if (consumers?.delete(id) && consumers.size === 0) this.#consumers.delete(queue);
    }
    app.consumes = queues;
    for (const queue of queues) {
      const consumers = this.#consumers.get(queue) ?? new Set();
      this.#consumers.set(queue, consumers.add(id));
    }
  }

  /** @param heldFor why its process was ended because of what it keeps on the disk */
  #restore({ wanted, fleet }: App, deployId: string, heldFor: string | undefined): void {
    const kept = this.#activity.atBoot(wanted.id);
    const live = this.#release(wanted.id, deployId);
    const phase = restingPhase(wanted);
    const rest = kept?.resting ? { dueAt: kept.dueAt } : null;
    if (phase === 'idle' && heldFor !== undefined) fleet.restore('held', live, rest, heldFor);
    else fleet.restore(phase, live, rest);
  }

  #fleet({ id }: WantedApp, preview: PreviewRow | null): Fleet {
    const {
      paths,
      workerd,
      users,
      idleMs,
      memoryMb,
      cacheMb,
      slots,
      memory,
      secrets,
      buckets,
      outward,
      egress,
      services,
      uiUrl,
      wakes,
    } = this.#options;
    return new Fleet({
      appId: id,
      directories: { run: paths.run(id), data: paths.data(id) },
      workerd,
      user: users(id).cell,
      idleMs: preview === null ? idleMs : restsAtLeast(idleMs),
      memoryMb,
      cacheMb,
      lastRequestAt: this.#activity.atBoot(id)?.lastRequestAt ?? null,
      slots,
      memory,
      secrets: () => secrets.values(preview?.parentId ?? id),
      buckets: buckets.access(id),
      services: services(id),
      outward: outward.access(id),
      egress,
      uiUrl,
      wakes,
      wake: () => this.#options.wake(id),
      output: (deployId) => this.#options.output(id, deployId),
      say: (level, words) => this.#say(id, level, words),
      onFailure: (failure) => this.#options.onFailure(id, failure),
      onState: (state) => this.#changed(id, state),
      onRest: (rest) => {
        if (this.#apps.has(id)) this.#activity.setRest(id, rest);
      },
    });
  }

  /** Says something of an app to its owner, and to whoever runs this host if it is trouble. */
  #say(id: string, level: Level, words: string): void {
    if (level !== 'info') log(level, `app: ${words}`, { app: this.#apps.get(id)?.wanted.slug });
    this.#options.say(id, level, words);
  }

  #tellUsage(id: string, { fleet }: App): void {
    const usage = fleet.takeUsage();
    if (usage !== null) this.#options.onUsage(id, usage);
  }

  /** Tells the control plane, but of hibernating and waking only at the next tick: a request waits for the wake. */
  #changed(id: string, state: ProcessState): void {
    const told = this.#apps.get(id)?.toldState ?? null;
    const wakes = (told === 'idle' || told === 'stopped') && state === 'running';
    if (!wakes && state !== 'idle') this.#tell(id);
  }

  /** Writes the app's state for the control plane. Never throws: whoever changes a state has no use for a full disk. */
  #tell(id: string): void {
    const app = this.#apps.get(id);
    if (!app) return;
    app.toldState = app.fleet.state;
    app.untold = true;
    try {
      this.#options.store.outbox.add({ type: 'app', app: observe(app) });
    } catch (error) {
      logRarely('error', 'the state of an app could not be written; it is tried again', {
        app: app.wanted.slug,
        error: reason(error),
      });
      return;
    }
    app.untold = false;
    this.#options.onFacts();
  }

  #hosts(wanted: WantedApp): string[] {
    return [`${wanted.slug}.${this.#options.baseDomain}`, ...wanted.hostnames];
  }

  #unroute(app: App): void {
    for (const host of this.#hosts(app.wanted)) if (this.#byHost.get(host) === app) this.#byHost.delete(host);
  }

  #queue<T>(app: App, work: () => Promise<T>): Promise<T> {
    const result = app.work.then(work, work);
    app.work = result.catch(() => {});
    return result;
  }

  async #reach(app: App): Promise<void> {
    const { wanted, fleet, liveDeployId } = app;
    const live = liveDeployId === null ? undefined : this.#release(wanted.id, liveDeployId);
    if (wanted.desired_state === 'stopped') return fleet.stop(live);
    if (wanted.asleep) return fleet.sleep(live);
    // A hibernated app is as it should be: the next request starts it.
    if (fleet.state === 'idle' && fleet.liveDeployId === liveDeployId) return;
    await this.#start(app);
  }

  async #start({ wanted, fleet, liveDeployId }: App): Promise<void> {
    if (liveDeployId === null) return;
    await fleet.start(this.#release(wanted.id, liveDeployId)).catch((error: unknown) => {
      log('warn', 'app does not start', { app: wanted.slug, deploy: liveDeployId, error: reason(error) });
    });
  }

  #release(id: string, deployId: string): ReleaseRef {
    return { deployId, directory: this.#options.paths.release(id, deployId) };
  }
}

function restingPhase(wanted: WantedApp): 'idle' | 'asleep' | 'stopped' {
  if (wanted.desired_state === 'stopped') return 'stopped';
  return wanted.asleep ? 'asleep' : 'idle';
}

function listed(app: App): ListedApp {
  const { lastRequestAt, openStreams } = app.fleet;
  const at = lastRequestAt === null ? null : new Date(lastRequestAt).toISOString();
  return { ...observe(app), last_activity_at: at, open_streams: openStreams };
}

function observe(app: App): ObservedApp {
  return {
    id: app.wanted.id,
    generation: app.wanted.generation,
    process_state: app.fleet.state,
    live_deploy_id: app.liveDeployId,
    deployed_at: app.deployedAt,
    last_error: app.fleet.lastError,
  };
}
