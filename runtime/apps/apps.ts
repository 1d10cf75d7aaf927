// Every app on this host: takes over what is wanted of each, makes releases live, starts and ends them.
import { EventEmitter, once } from 'node:events';
import type { Release } from '../../bundler/release.ts';
import type { ObservedApp, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import { removeTree } from '../disk/remove.ts';
import { throwAway } from '../disk/trash.ts';
import type { LeasedCell } from '../fleets/admission/leasing.ts';
import type { FleetUsage } from '../fleets/life/fleet.ts';
import { createRepository } from '../git/repository.ts';
import { type Level, log, logRarely, reason } from '../log.ts';
import { endProcessesOf } from '../processes/orphaned-processes.ts';
import { App, type MakeLiveSteps } from './app.ts';
import { type FleetsOptions, fleetOf } from './fleet-of-app.ts';
import { KeptActivity } from './kept-activity.ts';
import { KnownApps } from './known-apps.ts';
import { previewOf } from './preview-app.ts';
import type { LimitedApp } from './storage-limits.ts';

/** How many apps are started side by side at boot. A request's start waits behind no more than these. */
const BOOT_CONCURRENCY = 4;

const NOT_SYNCED = 'what was written down of an app is not on the disk; it is tried again';

/** A wanted state older than one that the host has already seen. */
export class StaleGeneration extends Error {}

/** What `Apps` needs of the rest of the host. */
export interface AppsOptions extends FleetsOptions {
  store: HostStore;
  baseDomain: string;
  /** Says something of an app to its owner. */
  say: (id: string, level: Level, words: string) => void;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
  /** Called at most once a second for each app, with what it has used since the call before. */
  onUsage: (id: string, usage: FleetUsage) => void;
  /** Called with an app's slug, at the start and when there is a new one. */
  onNamed: (id: string, slug: string) => void;
  /** Called when an app was deleted and takes no more requests. */
  onDeleted: (id: string) => void;
}

/** The apps of this host, and what is done to them. */
export class Apps extends KnownApps {
  readonly #options: AppsOptions;
  /** An app's id, when there is a new wanted state of it. */
  readonly #wantedStates = new EventEmitter();
  readonly #activity: KeptActivity;

  /** Takes over the apps as they were when the host ended. Each answers from now on, those that ran at their first request. */
  constructor(options: AppsOptions) {
    super(options.baseDomain);
    this.#options = options;
    this.#activity = new KeptActivity(options.store);
    const held = options.store.held.all();
    const restore = (app: App, row: { liveDeployId: string | null; deployedAt: string | null }) => {
      const kept = this.#activity.atBoot(app.id);
      const rest = kept?.resting ? { dueAt: kept.dueAt } : null;
      app.restore({ ...row, rest, heldFor: held.get(app.id)?.why });
    };
    for (const row of options.store.apps.all()) {
      restore(this.#open(row.wanted), row);
      this.consumers.set(row.wanted.id, row.consumes);
    }
    for (const row of options.store.previews.all()) {
      const parent = this.apps.get(row.parentId);
      if (parent && !row.isDeleted) restore(this.#openPreview(parent.wanted, row), row);
    }
  }

  /** Starts every app that ran when the host ended. Resolves when all were tried. */
  async resume(): Promise<void> {
    const hibernates = Number.isFinite(this.#options.idleMs);
    const waiting = [...this.apps.values()].filter(
      ({ id, fleet, preview }) =>
        fleet.state === 'idle' &&
        preview === null &&
        !(hibernates && this.#activity.atBoot(id)?.resting === true),
    );
    const startThem = async () => {
      for (let app = waiting.shift(); app; app = waiting.shift()) await app.startInTurn();
    };
    await Promise.all(Array.from({ length: BOOT_CONCURRENCY }, startThem));
  }

  /** To be called about once a second: hibernates quiet apps, gets a process for due work, tells and keeps what changed. */
  tick(): void {
    for (const app of this.apps.values()) {
      try {
        app.fleet.tick();
        this.#tellUsage(app);
      } catch (error) {
        logRarely('error', 'an app could not be looked at; the next tick tries again', {
          app: app.wanted.slug,
          error: reason(error),
        });
      }
      app.report.tick();
    }
    this.#activity.tick(this.apps.values());
  }

  /** What each app keeps on the disk, and how to stop it. */
  storages(): LimitedApp[] {
    return [...this.apps].map(([id, { wanted, fleet, preview }]) => ({
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

  /**
   * Takes over the whole wanted state of an app and brings it about. The same one again changes nothing.
   * @returns what was reached; an app that could not start says so in `last_error`
   * @throws {StaleGeneration} when a newer state is known, or the app was deleted
   */
  async apply(wanted: WantedApp): Promise<ObservedApp> {
    const { store, paths } = this.#options;
    if (store.apps.isDeleted(wanted.id)) throw stale(wanted);
    this.#requireFresh(wanted);
    // Before anything is awaited: what comes meanwhile must find it.
    store.apps.want(wanted);
    const app = this.#open(wanted);
    this.#wantedStates.emit(wanted.id);
    // Not in its turn: a start that is no longer wanted would have to end by itself first.
    if (wanted.desired_state === 'stopped') app.fleet.giveUpStarts();
    for (const preview of this.previews(wanted.id)) this.#follow(wanted, preview);
    await app.inTurn(async () => {
      // The app was deleted while this waited: its files have gone, and stay gone.
      if (this.apps.get(wanted.id) !== app) return;
      await createRepository(paths.repository(wanted.id));
      await app.reachWanted();
    });
    return app.observe();
  }

  /**
   * Stops an app and moves all it has to the trash. Also for an app that was never seen.
   * @param options.isKept false: it does not stay in the trash
   * @throws {StaleGeneration} when a newer state is known
   */
  async delete(id: string, generation: number, { isKept } = { isKept: true }): Promise<void> {
    const { store, paths } = this.#options;
    this.#requireFresh({ id, generation });
    const app = this.apps.get(id);
    store.transaction(() => {
      store.apps.delete(id, generation, new Date().toISOString());
      store.secrets.deleteAll(id);
    });
    this.#activity.delete(id);
    if (app) {
      this.hostNames.remove(app);
      this.consumers.set(id, []);
      this.apps.delete(id);
      // Not in its turn: a deploy that is being tried is given up.
      const closed = app.fleet.close();
      await app.inTurn(() => closed);
      const { cell } = this.#options.users(id);
      // A process that still ran could lead the host astray while it removes the app's files.
      if (cell !== null) await endProcessesOf(cell);
    }
    this.#options.onDeleted(id);
    await this.#options.buckets.forget(id);
    await this.#options.outward.forget(id);
    // An app that a crash of the machine brought back would have nothing left.
    await store.synced();
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
   * Makes a release the live one, as `App.makeLive` does.
   * @param steps.consumes the queues that the release consumes
   * @throws {Error} with workerd's own reason when the release does not start; the one before serves on
   */
  async makeLive(
    id: string,
    deployId: string,
    { consumes = [], ...steps }: Omit<MakeLiveSteps, 'synced'> & { consumes?: string[] },
  ): Promise<void> {
    const app = this.#require(id);
    const commit: MakeLiveSteps['commit'] = (at, observed) => {
      steps.commit(at, observed);
      // Other apps send nothing to a preview.
      if (app.preview === null) this.consumers.set(id, consumes);
    };
    try {
      await app.makeLive(deployId, { ...steps, commit, synced: () => this.#synced() });
    } catch (error) {
      if (steps.signal?.aborted !== true)
        this.#options.onFailure(id, { mechanism: 'load', deployId, reason: reason(error) });
      throw error;
    }
  }

  /** Fills an app's cache with what a release has for it, as `Fleet.prefill` says. */
  prefill(
    id: string,
    deployId: string,
    filled: NonNullable<Release['prefill']>,
    signal: AbortSignal,
  ): Promise<void> {
    const app = this.#require(id);
    const directory = this.#options.paths.release(id, deployId);
    return app.inTurn(() => app.fleet.prefill({ deployId, directory }, filled, signal));
  }

  /**
   * Waits until an app is no longer wanted asleep.
   * @returns false when it still is, after `deadlineMs` or when `signal` aborts
   */
  async untilAwake(id: string, deadlineMs: number, signal: AbortSignal): Promise<boolean> {
    const ending = AbortSignal.any([AbortSignal.timeout(deadlineMs), signal]);
    while (this.apps.get(id)?.wanted.asleep) {
      const changed = await once(this.#wantedStates, id, { signal: ending }).catch(() => null);
      if (changed === null) return false;
    }
    return true;
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
    return (await this.apps.get(id)?.fleet.renew()) ?? false;
  }

  /** Resolves when what was being done to an app's process has ended. */
  async settled(id: string): Promise<void> {
    await this.apps.get(id)?.fleet.settled();
  }

  /** Has `use` speak with a process of an app, as `Fleet.withCell` says. @throws {Error} when there can be none */
  async withCell<T>(
    id: string,
    purpose: string,
    use: (cell: LeasedCell) => Promise<T>,
    mayBlock = false,
  ): Promise<T> {
    return this.#require(id).fleet.withCell(purpose, use, mayBlock);
  }

  /**
   * Has `replace` change an app's storage while no process has it; requests are held meanwhile. Then it is as before: what
   * ran runs again.
   * @throws what `replace` throws
   */
  async replaceStorage(id: string, replace: () => Promise<void>): Promise<void> {
    const app = this.#require(id);
    await app.inTurn(() => app.fleet.replaceStorage(replace));
  }

  /**
   * Adds a preview of an app that is here: an app of this host alone, which the control plane knows nothing of. It is written
   * down when this returns.
   */
  addPreview(row: PreviewRow): void {
    const { store } = this.#options;
    const parent = this.apps.get(row.parentId)!.wanted;
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
    this.#openPreview(this.apps.get(row.parentId)!.wanted, row);
  }

  /** Ends every fleet: drain, then stop. */
  async close(): Promise<void> {
    for (const app of this.apps.values()) this.#tellUsage(app);
    await Promise.all([...this.apps.values()].map((app) => app.fleet.close()));
    this.#activity.keep(this.apps.values());
  }

  /** Has an app, also a new one, be what is wanted of it from now on, at its new host names. Its process is left as it is. */
  #open(wanted: WantedApp, preview: PreviewRow | null = null): App {
    const { id, slug } = wanted;
    const known = this.apps.get(id);
    if (known) this.hostNames.remove(known);
    const app = known ?? this.#make(wanted, preview);
    if (app.wanted.asleep !== wanted.asleep && wanted.desired_state === 'running')
      log('info', wanted.asleep ? 'app goes to sleep' : 'app wakes', { app: slug });
    app.wanted = wanted;
    app.preview = preview;
    this.apps.set(id, app);
    this.#options.onNamed(id, slug);
    this.hostNames.add(app);
    return app;
  }

  #make(wanted: WantedApp, preview: PreviewRow | null): App {
    const { id } = wanted;
    const fleet = fleetOf(id, preview, this.#activity, this.#options, {
      owner: () => this.ownerOf(id),
      say: (level, words) => this.#say(id, level, words),
      onState: (state) => this.apps.get(id)?.report.changed(state),
      onRest: async (rest) => {
        if (!this.apps.has(id)) return;
        this.#activity.setRest(id, rest);
        if (rest === null) await this.#synced();
      },
    });
    const releaseDirectory = (deployId: string) => this.#options.paths.release(id, deployId);
    return new App({ wanted, preview, fleet, reports: this.#options, releaseDirectory });
  }

  #openPreview(parent: WantedApp, row: PreviewRow): App {
    return this.#open(previewOf(parent, row, this.#options.baseDomain), row);
  }

  /** Has a preview be what its parent has become: at its new address, stopped or not. It starts at its next request. */
  #follow(parent: WantedApp, row: PreviewRow): void {
    const preview = this.#openPreview(parent, row);
    if (parent.desired_state === 'stopped') preview.fleet.giveUpStarts();
    preview
      .inTurn(() => preview.reachWantedAsPreview())
      .catch((error: unknown) =>
        log('error', 'a preview could not follow its app', { app: parent.slug, error: reason(error) }),
      );
  }

  /** An app and its previews, by id. */
  #family(id: string): string[] {
    return [id, ...this.previews(id).map((preview) => preview.id)];
  }

  #require(id: string): App {
    const app = this.apps.get(id);
    if (!app) throw new Error('the app was deleted');
    return app;
  }

  /** @throws {StaleGeneration} when the host knows a newer state of the app */
  #requireFresh(given: { id: string; generation: number }): void {
    if (given.generation < this.#options.store.apps.generation(given.id)) throw stale(given);
  }

  /** Says something of an app to its owner, and to whoever runs this host if it is trouble. */
  #say(id: string, level: Level, words: string): void {
    if (level !== 'info') log(level, `app: ${words}`, { app: this.apps.get(id)?.wanted.slug });
    this.#options.say(id, level, words);
  }

  /** Resolves when what was committed is on the disk. Never rejects: apps go on when the disk does not take it. */
  async #synced(): Promise<void> {
    await this.#options.store
      .synced()
      .catch((error: unknown) => logRarely('error', NOT_SYNCED, { error: reason(error) }));
  }

  #tellUsage({ id, fleet }: App): void {
    const usage = fleet.takeUsage();
    if (usage !== null) this.#options.onUsage(id, usage);
  }
}

function stale({ id, generation }: { id: string; generation: number }): StaleGeneration {
  return new StaleGeneration(`generation ${generation} of app ${id} is older than what this host knows`);
}
