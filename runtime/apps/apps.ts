// All apps on this host: applies their wanted states, makes releases live, starts and stops processes.
import type { Release } from '../../bundler/release.ts';
import type { ObservedApp, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { AppRow } from '../../sqlite/host/apps.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import { learnDueTimes } from '../bucket/records/due-times.ts';
import type { LeasedCell, LeaseOptions } from '../fleets/admission/leasing.ts';
import { createRepository } from '../git/repository.ts';
import { CUT_OFF } from '../hosts/gate.ts';
import { log, logRarely, reason } from '../log.ts';
import type { App, MakeLiveSteps } from './app.ts';
import { Arrivals } from './changes/arrivals.ts';
import { Deletions } from './changes/deletions.ts';
import { Departures } from './changes/departures.ts';
import { PlaceMoves } from './changes/place-moves.ts';
import type { AppsOptions } from './known/apps-options.ts';
import { OpenApps } from './known/open-apps.ts';
import { previewOf } from './preview-app.ts';
import type { LimitedApp } from './storage-limits.ts';

/** Maximum number of concurrent starts at boot. More would delay starts for requests, which share the start slots. */
const BOOT_CONCURRENCY = 4;
/** Maximum number of apps that a sweep puts to sleep concurrently. Each may take 10 s, for its requests in flight. */
const SWEEP_CONCURRENCY = 4;

export class Apps extends OpenApps {
  readonly departures = new Departures(this);
  readonly arrivals = new Arrivals(this, this.departures);
  readonly deletions = new Deletions(this, this.arrivals);
  readonly placeMoves = new PlaceMoves(this);

  /** Restores the apps from the database. All accept requests from now on; a request starts an app that ran before. */
  constructor(options: AppsOptions) {
    super(options);
    const held = options.store.held.all();
    const restore = (app: App, row: Pick<AppRow, 'liveDeployId' | 'deployedAt' | 'sleep'>) => {
      const kept = this.activity.atBoot(app.id);
      const rest = kept?.resting ? { dueAt: kept.dueAt } : null;
      app.restore({ ...row, rest, heldFor: held.get(app.id)?.why });
    };
    for (const row of options.store.apps.all()) {
      restore(this.open(row.wanted), row);
      this.consumers.set(row.wanted.id, row.consumes);
    }
    for (const row of options.store.previews.all()) {
      const parent = this.apps.get(row.parentId);
      if (parent && !row.isDeleted)
        restore(this.openPreview(parent.wanted, row), {
          ...row,
          sleep: { asleepSince: null, wokeAt: null },
        });
    }
  }

  /**
   * Starts the apps that ran before the restart; if apps never hibernate, also those at rest. Starts no previews, stopped or
   * sleeping apps. Resolves when all starts have succeeded or failed.
   * @param inBucket true: apps that keep their data in the bucket; false: the others
   */
  async resume(inBucket: boolean): Promise<void> {
    if (inBucket) await this.#finishImports();
    const hibernates = Number.isFinite(this.options.idleMs);
    const waiting = [...this.apps.values()].filter(
      ({ id, fleet, preview, cluster }) =>
        (cluster !== null) === inBucket &&
        fleet.state === 'idle' &&
        preview === null &&
        !(hibernates && this.activity.atBoot(id)?.resting === true),
    );
    await someAtOnce(BOOT_CONCURRENCY, waiting, (app) => app.startInTurn());
    if (inBucket) await this.#learnDueTimes();
  }

  #learnDueTimes(): Promise<void> {
    const apps = [...this.apps.values()].flatMap(({ cluster, fleet }) =>
      cluster === null ? [] : [{ learn: () => fleet.learnDue(() => cluster.nextAlarm()) }],
    );
    return learnDueTimes(this.options.store.records, apps, this.closing.signal);
  }

  /**
   * Puts restored data into the bucket, also for apps without a process. A failed import is tried again when the app's
   * data is used.
   */
  async #finishImports(): Promise<void> {
    const waiting = [...this.apps.values()].filter(({ cluster }) => cluster?.isImporting);
    for (const { id, cluster } of waiting)
      await cluster?.finishImport().catch((error: unknown) =>
        log('warn', 'restored data of an app could not be written to the bucket', {
          app: id,
          error: reason(error),
        }),
      );
  }

  /** Hibernates idle apps, starts processes for due work, reports and records changes. Call it about once a second. */
  tick(): void {
    for (const app of this.apps.values()) {
      try {
        app.fleet.tick();
        this.#reportUsage(app);
      } catch (error) {
        logRarely(
          'error',
          'an app could not be checked for idle time and due work; Cellar tries again in a second',
          {
            app: app.wanted.slug,
            error: reason(error),
          },
        );
      }
      app.report.tick();
    }
    this.activity.tick(this.apps.values());
  }

  /** Returns the storage of each app and preview, with functions that stop the app and let it start again. */
  storages(): LimitedApp[] {
    return [...this.apps].map(([id, { wanted, fleet, preview, cluster }]) => ({
      id,
      slug: wanted.slug,
      countedWith: preview === null ? [] : this.family(preview.parentId).filter((other) => other !== id),
      directories: [
        // The data directory of an app in the bucket is only a cache.
        ...(cluster ? [] : [this.options.paths.data(id)]),
        this.options.paths.buckets(id),
      ],
      ...(cluster && { bytesInBucket: () => cluster.bytes() }),
      pid: fleet.pid,
      writtenBytes: fleet.writtenBytes,
      isHeld: fleet.isHeld,
      hold: (why, atOnce) => fleet.hold(why, atOnce),
      letGo: () => fleet.letGo(),
    }));
  }

  /**
   * Records and applies the whole wanted state of an app. Idempotent.
   * @returns the state that was reached; a failed start is in `last_error`
   * @throws {StaleGeneration} when a newer state is known, or the app was deleted
   * @throws {Refusal} when the app's home (the host that runs it) is another host, or its record cannot be read
   * @throws {Refusal} when the app is to be undeleted, and its data is gone
   */
  async apply(wanted: WantedApp): Promise<ObservedApp> {
    const { store, paths } = this.options;
    this.requireNewest(wanted);
    await this.arrivals.takeIfElsewhere(wanted);
    const isBack = await this.deletions.undelete(wanted);
    // No `await` until `open`, so that concurrent calls see the new state.
    const known = this.apps.get(wanted.id)?.wanted;
    // Only a move changes where an app's data is, and the control plane learns of it later.
    const stored = known ? { ...wanted, storage: known.storage ?? 'local' } : wanted;
    store.apps.want(stored);
    const app = this.open(stored);
    // Not queued, because it must cancel a start that runs in the queue.
    if (wanted.desired_state === 'stopped') app.fleet.giveUpStarts();
    for (const preview of this.previews(wanted.id)) this.#follow(stored, preview);
    await app.inTurn(async () => {
      // The app was deleted meanwhile: do not recreate its files.
      if (this.apps.get(wanted.id) !== app) return;
      // A repository in the bucket is made at its first use, from what the bucket has.
      if (app.code === null) await createRepository(paths.repository(wanted.id));
      await app.reachWanted();
    });
    // Not awaited: if a slow start delayed the answer beyond its timeout, the control plane would delete the app again.
    if (isBack && app.fleet.state === 'idle') void app.startInTurn();
    for (const each of this.family(wanted.id)) this.#renewOldVars(each);
    return app.observe();
  }

  /**
   * Makes a release the live one, as `App.makeLive` does. The release gets all requests: `steps.commit` must record the end
   * of a split, in which two versions share the requests.
   * @param steps.consumes the queues that the release consumes
   * @throws {Error} with workerd's reason when the release does not start; the previous release stays live
   */
  async makeLive(
    id: string,
    deployId: string,
    { consumes = [], ...steps }: Omit<MakeLiveSteps, 'synced'> & { consumes?: string[] },
  ): Promise<void> {
    const app = this.require(id);
    const commit: MakeLiveSteps['commit'] = (at, observed) => {
      steps.commit(at, observed);
      if (app.preview !== null) return;
      // Not for a preview, because it gets no messages from other apps' queues.
      this.consumers.set(id, consumes);
      this.clearSplit(app);
    };
    try {
      await app.makeLive(deployId, { ...steps, commit, synced: () => this.synced() });
    } catch (error) {
      if (steps.signal?.aborted !== true)
        this.options.onFailure(id, { mechanism: 'load', deployId, reason: reason(error) }, true);
      throw error;
    }
  }

  /** Fills an app's cache with the prepared entries of a release, as `Fleet.prefill` does. */
  prefill(
    id: string,
    deployId: string,
    filled: NonNullable<Release['prefill']>,
    signal: AbortSignal,
  ): Promise<void> {
    const app = this.require(id);
    const directory = this.options.paths.release(id, deployId);
    return app.inTurn(() => app.fleet.prefill({ deployId, directory }, filled, signal));
  }

  /**
   * Starts an app that is meant to run, as `App.startNow` does.
   * @returns the state that was reached; a failed start is in `last_error`
   * @throws {Refusal} for an unknown app, and while it is put to sleep
   */
  async start(id: string): Promise<ObservedApp> {
    const app = this.requireKnown(id);
    await app.startNow();
    app.report.tick();
    return app.observe();
  }

  /** Puts an app to sleep, as `App.sleep` does. @throws {Refusal} for an unknown app, and for one that cannot sleep */
  async sleep(id: string): Promise<ObservedApp> {
    const app = this.requireKnown(id);
    await app.sleep(this.options.store.deploys.lastAsked(id)?.isUnderWay ?? false);
    app.report.tick();
    return app.observe();
  }

  /**
   * Puts apps to sleep that were not called, woken or deployed for `unusedMs`, and have no open requests, connections or
   * Workflow steps. Never rejects: logs each app that could not be put to sleep.
   */
  async sweep(unusedMs: number): Promise<void> {
    const before = new Date(Date.now() - unusedMs).toISOString();
    const unused = [...this.apps.values()].filter((app) => this.#isUnused(app, before));
    await someAtOnce(SWEEP_CONCURRENCY, unused, async (app) => {
      // The app may have been used while others were put to sleep.
      if (!this.#isUnused(app, before)) return;
      await app
        .sleep(false)
        .catch((error: unknown) =>
          log('warn', 'an unused app was not put to sleep', { app: app.id, error: reason(error) }),
        );
    });
  }

  #isUnused(app: App, before: string): boolean {
    const { id, fleet, preview, wanted, liveDeployId } = app;
    if (preview !== null || wanted.desired_state === 'stopped' || liveDeployId === null) return false;
    if (fleet.asleep || fleet.openStreams > 0) return false;
    const { deployed_at, woke_at } = app.observe();
    const { lastRequestAt } = app;
    const called = lastRequestAt === null ? null : new Date(lastRequestAt).toISOString();
    if ([called, deployed_at, woke_at].some((at) => (at ?? '') >= before)) return false;
    const deploy = this.options.store.deploys.lastAsked(id);
    return deploy === undefined || (deploy.at < before && !deploy.isUnderWay);
  }

  /** Wakes an app before it is deployed to. Never rejects. */
  async wakeForDeploy(id: string): Promise<void> {
    await this.apps.get(id)?.wakeForDeploy();
  }

  /**
   * Restarts the processes of an app and of its previews after a change of their settings, as `Fleet.renew` does.
   * @returns whether a new process of the app serves
   * @throws {Error} as `Fleet.renew` does, for the app; failures of previews are written to their logs
   */
  async renew(id: string): Promise<boolean> {
    for (const preview of this.previews(id))
      this.#renewAlone(preview.id).catch((error: unknown) => this.#sayNotRenewed(preview.id, error));
    return this.#renewAlone(id);
  }

  async #renewAlone(id: string): Promise<boolean> {
    return (await this.apps.get(id)?.fleet.renew()) ?? false;
  }

  /** Restarts an app whose process has old overrides of variables. @returns and throws as `Fleet.renewVars` does */
  async renewVars(id: string): Promise<boolean> {
    return (await this.apps.get(id)?.fleet.renewVars()) ?? false;
  }

  /** As `renewVars`, in the background: the variables may have changed while this host did not answer. */
  #renewOldVars(id: string): void {
    if (this.apps.get(id)?.fleet.hasOldVars)
      this.renewVars(id).catch((error: unknown) => this.#sayNotRenewed(id, error));
  }

  #sayNotRenewed(id: string, error: unknown): void {
    this.say(id, 'error', `the app does not start with the changed settings: ${reason(error)}`);
  }

  /** Resolves when pending operations on an app's process have ended. */
  async settled(id: string): Promise<void> {
    await this.apps.get(id)?.fleet.settled();
  }

  /** Gives `use` access to a process of an app, as `Fleet.withCell` does. @throws {Error} when no process can run */
  async withCell<T>(
    id: string,
    purpose: string,
    use: (cell: LeasedCell) => Promise<T>,
    options?: LeaseOptions,
  ): Promise<T> {
    return this.require(id).fleet.withCell(purpose, use, options);
  }

  /**
   * Stops the app's process, lets `replace` change its storage, and starts the process again if one ran. Requests are queued
   * meanwhile.
   * @throws what `replace` throws
   */
  async replaceStorage(id: string, replace: () => Promise<void>): Promise<void> {
    const app = this.require(id);
    await app.inTurn(() => app.fleet.replaceStorage(replace));
  }

  /**
   * Adds a preview of an existing app, and records it: an app on this host only, unknown to the control plane.
   * @throws {Refusal} while the app moves
   */
  addPreview(row: PreviewRow): void {
    const { store } = this.options;
    const { wanted: parent, changes } = this.apps.get(row.parentId)!;
    changes.requireOpen();
    store.transaction(() => {
      // Without `env`, because `openPreview` derives the whole state from the parent each time.
      store.apps.want({ ...previewOf(parent, row, this.options.baseDomain), env: {} });
      store.previews.add(row);
    });
    this.openPreview(parent, row);
  }

  /** Updates the version that a preview shows, and the time until which it is kept. */
  renewPreview(row: PreviewRow): void {
    this.options.store.previews.renew(row.id, row.versionId, row.expiresAt);
    this.openPreview(this.apps.get(row.parentId)!.wanted, row);
  }

  /**
   * Gives a preview a share of its app's requests, as the second version of a split. The previous second version gets
   * none.
   * @param share the percentage, from 0 to less than 100
   * @throws {Refusal} while the app moves: the record for its next host may be written already
   */
  share(id: string, share: number): void {
    const { preview } = this.require(id);
    const parent = this.require(preview!.parentId);
    parent.changes.requireOpen();
    this.options.store.transaction(() => this.options.store.previews.setShare(parent.id, id, share));
    if (parent.second?.app.id !== id) this.clearSplit(parent);
    this.openPreview(parent.wanted, { ...preview!, share });
  }

  /**
   * Lets the live release of an app have all requests again. The second version, if any, can then be deleted.
   * @throws {Refusal} for an unknown app, and while it moves
   */
  endSplit(id: string): void {
    const app = this.requireKnown(id);
    app.changes.requireOpen();
    this.options.store.transaction(() => this.options.store.previews.endSplit(id));
    this.clearSplit(app);
  }

  /** Ends the processes and imports of apps that another host may run, because this host is cut off from the control plane. */
  cutOff(): void {
    for (const { cluster, fleet } of this.apps.values()) {
      if (cluster === null) continue;
      void cluster.stopImport(new Error(CUT_OFF));
      fleet.cutOff().catch(() => {});
    }
  }

  /** The highest generation of all known apps; 0 without any. Each change of an app's wanted state raises its generation. */
  get highestGeneration(): number {
    return Math.max(this.options.store.apps.highestGeneration(), this.newestInBucket);
  }

  /** Whether any app has its data on the disk of this host. */
  get hasLocal(): boolean {
    return [...this.apps.values()].some(({ preview, cluster }) => preview === null && cluster === null);
  }

  /** How many apps this host has, without previews, and how many apps and previews have a process. */
  get counts(): { apps: number; running: number } {
    const all = [...this.apps.values()];
    return {
      apps: all.filter(({ preview }) => preview === null).length,
      running: all.filter(({ fleet }) => fleet.pid !== null).length,
    };
  }

  /**
   * Lets apps in the bucket that crashed meanwhile start again. Call it when the bucket answers again, or this host is no
   * longer cut off.
   */
  bucketIsBack(): void {
    for (const { cluster, fleet } of this.apps.values())
      if (cluster !== null) fleet.bucketIsBack().catch(() => {});
  }

  /** Drains and stops all processes of the apps. */
  async close(): Promise<void> {
    this.closing.abort();
    for (const app of this.apps.values()) this.#reportUsage(app);
    await Promise.all([...this.apps.values()].map((app) => app.fleet.close()));
    this.activity.keep(this.apps.values());
  }

  /** Applies a changed parent's state to a preview: its address, and whether it is stopped. Its next request starts it. */
  #follow(parent: WantedApp, row: PreviewRow): void {
    const preview = this.openPreview(parent, row);
    if (parent.desired_state === 'stopped') preview.fleet.giveUpStarts();
    preview
      .inTurn(() => preview.reachWantedAsPreview())
      .catch((error: unknown) =>
        log('error', 'a preview could not apply the change of its app', {
          app: parent.slug,
          error: reason(error),
        }),
      );
  }

  #reportUsage({ id, fleet }: App): void {
    const usage = fleet.takeUsage();
    if (usage !== null) this.options.onUsage(id, usage);
  }
}

/** Does `work` for all apps, for at most `count` of them at once. */
async function someAtOnce(count: number, apps: App[], work: (app: App) => Promise<void>): Promise<void> {
  const next = async () => {
    for (let app = apps.shift(); app; app = apps.shift()) await work(app);
  };
  await Promise.all(Array.from({ length: count }, next));
}
