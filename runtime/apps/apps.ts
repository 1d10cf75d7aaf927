// All apps on this host: applies their wanted states, makes releases live, starts and stops processes.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Release } from '../../bundler/release.ts';
import { versionOf } from '../../handlers/contract/apps/versions.ts';
import type { ObservedApp, WantedApp } from '../../handlers/contract/host/host-calls.ts';
import { uuidOf } from '../../handlers/contract/id.ts';
import type { AppRecord } from '../../sqlite/host/app-records.ts';
import type { AppRow } from '../../sqlite/host/apps.ts';
import type { HostStore } from '../../sqlite/host/index.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import type { AppCluster } from '../bucket/app-cluster.ts';
import type { Bucket } from '../bucket/bucket.ts';
import type { AppCode } from '../bucket/code/app-code.ts';
import { LeftBucket, NewerRecord, OtherHome } from '../bucket/records/app-records.ts';
import { learnDueTimes } from '../bucket/records/due-times.ts';
import { removeTree } from '../disk/remove.ts';
import { KEPT_MS, moveToTrash, takeFromTrash } from '../disk/trash.ts';
import type { Backend } from '../edge/upstream/backend.ts';
import type { LeasedCell, LeaseOptions } from '../fleets/admission/leasing.ts';
import { AT_WORK_MS } from '../fleets/due/due.ts';
import type { FleetUsage } from '../fleets/life/fleet.ts';
import { createRepository } from '../git/repository.ts';
import { type Level, log, logRarely, reason } from '../log.ts';
import { endProcessesOf } from '../processes/orphaned-processes.ts';
import { SerialQueues } from '../queues/serial-queue.ts';
import { Refusal } from '../refusal.ts';
import { App, type MakeLiveSteps } from './app.ts';
import { type FleetsOptions, fleetOf } from './fleet-of-app.ts';
import { StoredActivity } from './kept-activity.ts';
import { KnownApps } from './known-apps.ts';
import { previewOf, reportedApp } from './preview-app.ts';
import type { LimitedApp } from './storage-limits.ts';

/** Concurrent starts at boot. A start for a request waits behind at most these. */
const BOOT_CONCURRENCY = 4;
/** Apps that a sweep puts to sleep at once. Each may take 10 s, for its requests in flight. */
const SWEEP_CONCURRENCY = 4;
/** Pause before the data of a moved app is taken into use again, in ms. */
const BEGIN_RETRY_MS = 1_000;

const NOT_SYNCED = 'the record of an app could not be synced to the disk; it is tried again';

/** Where an app keeps its data and code. */
export type Place = 'local' | 'bucket';

/** Of an app in the bucket. */
export interface BucketPlace {
  cluster: AppCluster;
  code: AppCode;
}

const ON_THIS_MACHINE = { cluster: null, code: null };

/** The wanted state is older than one that the host has already seen. */
export class StaleGeneration extends Error {}

/** What `Apps` needs where several hosts serve the same apps. */
export interface AppHosts {
  /** The id of this host. */
  self: string;
  /** Ends the deploys of an app that leaves, and resolves when none runs. Its next home makes them again. */
  endDeploys: (id: string) => Promise<void>;
  /**
   * Called at once when an app or a preview has left for the host `to`. Returns where its requests go from now on.
   * @param hostname one of its own
   */
  left: (id: string, to: string, hostname: string) => Backend;
  /** Called when nothing of an app that has left runs here any more. */
  ended: (id: string) => void;
}

/** What `Apps` needs of the rest of the host. */
export interface AppsOptions extends FleetsOptions {
  store: HostStore;
  /** Null without a bucket. */
  bucket: Bucket | null;
  /** Left out in a Cellar of one host. */
  hosts?: AppHosts | null;
  baseDomain: string;
  /** Sends a message about an app to its owner. */
  say: (id: string, level: Level, words: string) => void;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
  /** Called at most once a second for each app, with what it has used since the call before. */
  onUsage: (id: string, usage: FleetUsage) => void;
  /** Called with an app's slug, at boot and when it changes. */
  onNamed: (id: string, slug: string) => void;
  /** Called when an app or a preview has come from another host, or was undeleted, before it gets requests. */
  onRestored: (id: string) => void;
  /** Called when an app was deleted and no longer receives requests. */
  onDeleted: (id: string) => void;
}

/** The apps of this host. */
export class Apps extends KnownApps {
  readonly #options: AppsOptions;
  readonly #activity: StoredActivity;
  readonly #closing = new AbortController();
  /** Apps that are taken from other hosts. */
  readonly #arrivals = new SerialQueues();
  /** Deletions, which are asked for again when they take long, and undeletions. */
  readonly #deletions = new SerialQueues();
  /** Apps that have left for another host since this one started, and the generation that gave them that home. */
  readonly #left = new Map<string, number>();
  /** The newest generation of an app in the bucket that a word of the control plane was older than. */
  #newestInBucket = 0;

  /** Restores the apps from the database. All accept requests from now on; a request starts an app that ran before. */
  constructor(options: AppsOptions) {
    super(options.baseDomain, options.paths);
    this.#options = options;
    this.#activity = new StoredActivity(options.store);
    const held = options.store.held.all();
    const restore = (app: App, row: Pick<AppRow, 'liveDeployId' | 'deployedAt' | 'sleep'>) => {
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
      if (parent && !row.isDeleted)
        restore(this.#openPreview(parent.wanted, row), {
          ...row,
          sleep: { asleepSince: null, wokeAt: null },
        });
    }
  }

  /**
   * Starts every app that ran before the restart. Resolves when all starts have succeeded or failed.
   * @param inBucket true: apps that keep their data in the bucket; false: the others
   */
  async resume(inBucket: boolean): Promise<void> {
    if (inBucket) await this.#finishImports();
    const hibernates = Number.isFinite(this.#options.idleMs);
    const waiting = [...this.apps.values()].filter(
      ({ id, fleet, preview, cluster }) =>
        (cluster !== null) === inBucket &&
        fleet.state === 'idle' &&
        preview === null &&
        !(hibernates && this.#activity.atBoot(id)?.resting === true),
    );
    await someAtOnce(BOOT_CONCURRENCY, waiting, (app) => app.startInTurn());
    if (inBucket) await this.#learnDueTimes();
  }

  #learnDueTimes(): Promise<void> {
    const apps = [...this.apps.values()].flatMap(({ cluster, fleet }) =>
      cluster === null ? [] : [{ learn: () => fleet.learnDue(() => cluster.nextAlarm()) }],
    );
    return learnDueTimes(this.#options.store.records, apps, this.#closing.signal);
  }

  /** Puts restored data into the bucket, also that of apps without a process. What fails is tried again when it is used. */
  async #finishImports(): Promise<void> {
    const waiting = [...this.apps.values()].filter(({ cluster }) => cluster?.isImporting);
    for (const { id, cluster } of waiting)
      await cluster
        ?.finishImport()
        .catch((error: unknown) =>
          log('warn', 'restored data is not in the bucket yet', { app: id, error: reason(error) }),
        );
  }

  /** Hibernates idle apps, starts processes for due work, reports and records changes. Call it about once a second. */
  tick(): void {
    for (const app of this.apps.values()) {
      try {
        app.fleet.tick();
        this.#reportUsage(app);
      } catch (error) {
        logRarely('error', 'an app could not be checked; it is tried again in a second', {
          app: app.wanted.slug,
          error: reason(error),
        });
      }
      app.report.tick();
    }
    this.#activity.tick(this.apps.values());
  }

  /** Returns each app's storage, with functions to stop it. */
  storages(): LimitedApp[] {
    return [...this.apps].map(([id, { wanted, fleet, preview, cluster }]) => ({
      id,
      slug: wanted.slug,
      countedWith: preview === null ? [] : this.#family(preview.parentId).filter((other) => other !== id),
      directories: [
        // On the disk there is only a cache of data in the bucket.
        ...(cluster ? [] : [this.#options.paths.data(id)]),
        this.#options.paths.buckets(id),
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
   * @throws {Refusal} when another host is the app's home, when its record cannot be read, and when it is to be undeleted and its
   *   data is gone
   */
  async apply(wanted: WantedApp): Promise<ObservedApp> {
    const { store, paths } = this.#options;
    this.#requireNewest(wanted);
    await this.#takeIfElsewhere(wanted);
    const isBack = await this.#undelete(wanted);
    // Before the first await, so that concurrent calls see it.
    const known = this.apps.get(wanted.id)?.wanted;
    // Only a move changes where an app is, and the control plane learns of it later.
    const stored = known ? { ...wanted, storage: known.storage ?? 'local' } : wanted;
    store.apps.want(stored);
    const app = this.#open(stored);
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
    // Not earlier: a slow start would make the answer late, and the control plane would delete the app again.
    if (isBack && app.fleet.state === 'idle') void app.startInTurn();
    for (const each of this.#family(wanted.id)) this.#renewOldVars(each);
    return app.observe();
  }

  /**
   * Stops an app and moves all its files to the trash. Also works for an unknown app.
   * @param options.isKept false: removes them from the trash, too
   * @throws {StaleGeneration} when a newer state is known
   */
  delete(id: string, generation: number, { isKept } = { isKept: true }): Promise<void> {
    return this.#deletions.run(id, () => this.#delete(id, generation, isKept));
  }

  async #delete(id: string, generation: number, isKept: boolean): Promise<void> {
    const { store, paths } = this.#options;
    this.#requireFresh({ id, generation });
    // A preview that this host deleted before it was lost may be another host's now.
    const left = this.apps.has(id) || !isKept ? [] : await this.#takeLeft(id, generation);
    const app = this.apps.get(id);
    const now = Date.now();
    store.transaction(() => {
      if (isKept && (app?.preview === null || left.length > 0)) store.records.keep(id, now, left[0]);
      store.apps.delete(id, generation, new Date().toISOString());
      store.secrets.deleteAll(id);
      // Not `cluster`, which a move changes later than the record.
      const inBucket = app?.wanted.storage === 'bucket' ? [id] : left.map(({ wanted }) => wanted.id);
      for (const each of inBucket)
        store.folderRemovals.add(each, new Date(now + (isKept ? KEPT_MS : 0)).toISOString());
    });
    this.#activity.delete(id);
    if (app) {
      this.#withdraw(app);
      this.hostNames.remove(app);
      this.consumers.set(id, []);
      this.apps.delete(id);
      // Not queued, because it must cancel a deploy that is being tried.
      const closed = app.fleet.close('the app was deleted');
      await app.inTurn(() => closed);
      const { cell } = this.#options.users(id);
      // A process that still ran could redirect the host while it removes the app's files.
      if (cell !== null) await endProcessesOf(cell);
    }
    this.#options.onDeleted(id);
    await this.#options.buckets.forget(id);
    await this.#options.outward.forget(id);
    // Otherwise a crash of the machine could bring back an app without its files.
    await store.synced();
    // Where an interrupted deletion began to move them.
    const thrownAt = store.records.kept(id)?.thrownAt ?? now;
    const belongings = { ...this.#belongings(id), run: paths.run(id) };
    const place = moveToTrash(paths.trash, id, belongings, thrownAt);
    if (isKept) return;
    await removeTree(place);
    // Not awaited: other folders may be due too.
    void this.#options.bucket?.removals.run();
  }

  /** Returns the paths of an app's files by their names in the trash. */
  #belongings(id: string): Record<string, string> {
    const { paths } = this.#options;
    return {
      'repository.git': paths.repository(id),
      data: paths.data(id),
      importing: paths.importing(id),
      buckets: paths.buckets(id),
      releases: paths.releases(id),
    };
  }

  /**
   * Brings back an app on the disk that was deleted. Does nothing for another.
   * @returns whether it did
   * @throws {Refusal} when its data is gone
   */
  async #undelete(wanted: WantedApp): Promise<boolean> {
    const { id, undeleted } = wanted;
    if (undeleted === undefined || this.apps.has(id)) return false;
    return this.#deletions.run(id, async () => {
      this.#requireNewest(wanted);
      if (this.apps.has(id)) return false;
      this.#takeBack(wanted);
      return true;
    });
  }

  /** @throws {Refusal} when the data of an app is no longer in the trash */
  #takeBack(wanted: WantedApp): void {
    const { id } = wanted;
    const { store, paths } = this.#options;
    const kept = wanted.storage === 'bucket' ? null : store.records.kept(id);
    if (kept === null || !takeFromTrash(paths.trash, id, this.#belongings(id), kept.thrownAt)) throw gone();
    const record = { ...kept.record, wanted };
    store.transaction(() => store.records.takeOne([record]));
    this.#restore(record, wanted, null);
    log('info', 'an app was undeleted', { app: wanted.slug });
  }

  /** Forgets the deleted apps that cannot be undeleted any more. */
  forgetDeleted(): void {
    this.#options.store.records.forgetKept(Date.now() - KEPT_MS);
  }

  /**
   * Makes a release the live one, as `App.makeLive` does. It gets all requests, so `steps.commit` must end a split.
   * @param steps.consumes the queues that the release consumes
   * @throws {Error} with workerd's reason when the release does not start; the one before stays live
   */
  async makeLive(
    id: string,
    deployId: string,
    { consumes = [], ...steps }: Omit<MakeLiveSteps, 'synced'> & { consumes?: string[] },
  ): Promise<void> {
    const app = this.#require(id);
    const commit: MakeLiveSteps['commit'] = (at, observed) => {
      steps.commit(at, observed);
      if (app.preview !== null) return;
      // Other apps send no messages to a preview.
      this.consumers.set(id, consumes);
      this.#endSplit(app);
    };
    try {
      await app.makeLive(deployId, { ...steps, commit, synced: () => this.#synced() });
    } catch (error) {
      if (steps.signal?.aborted !== true)
        this.#options.onFailure(id, { mechanism: 'load', deployId, reason: reason(error) });
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
    const app = this.#require(id);
    const directory = this.#options.paths.release(id, deployId);
    return app.inTurn(() => app.fleet.prefill({ deployId, directory }, filled, signal));
  }

  /**
   * Starts an app that is meant to run, as `App.startNow` does.
   * @returns the state that was reached; a failed start is in `last_error`
   * @throws {Refusal} for an unknown app, and while it is put to sleep
   */
  async start(id: string): Promise<ObservedApp> {
    const app = this.#known(id);
    await app.startNow();
    app.report.tick();
    return app.observe();
  }

  /** Puts an app to sleep, as `App.sleep` does. @throws {Refusal} for an unknown app, and for one that cannot sleep */
  async sleep(id: string): Promise<ObservedApp> {
    const app = this.#known(id);
    await app.sleep(this.#options.store.deploys.lastAsked(id)?.isUnderWay ?? false);
    app.report.tick();
    return app.observe();
  }

  /**
   * Puts apps to sleep that were not called, woken or deployed for `unusedMs`, and have no open requests or connections.
   * Resolves when they sleep.
   */
  async sweep(unusedMs: number): Promise<void> {
    const before = new Date(Date.now() - unusedMs).toISOString();
    const unused = [...this.apps.values()].filter((app) => this.#isUnused(app, before));
    await someAtOnce(SWEEP_CONCURRENCY, unused, async (app) => {
      // It may have been used while others were put to sleep.
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
    const deploy = this.#options.store.deploys.lastAsked(id);
    return deploy === undefined || (deploy.at < before && !deploy.isUnderWay);
  }

  /** Wakes an app before it is deployed to. Never rejects. */
  async wakeForDeploy(id: string): Promise<void> {
    await this.apps.get(id)?.wakeForDeploy();
  }

  /**
   * Restarts the processes of an app and of its previews after a change of their settings, as `Fleet.renew` does.
   * @throws {Error} why the app does not start; the process before continues
   */
  async renew(id: string): Promise<boolean> {
    // A preview that does not start says so in its log.
    for (const preview of this.previews(id))
      this.#renewAlone(preview.id).catch((error: unknown) => this.#sayNotRenewed(preview.id, error));
    return this.#renewAlone(id);
  }

  async #renewAlone(id: string): Promise<boolean> {
    return (await this.apps.get(id)?.fleet.renew()) ?? false;
  }

  /** Restarts an app whose process has old overrides of variables, as `Fleet.renewVars` does. @throws {Error} as `renew` does */
  async renewVars(id: string): Promise<boolean> {
    return (await this.apps.get(id)?.fleet.renewVars()) ?? false;
  }

  /** As `renewVars`, in the background: the variables may have changed while this host did not answer. */
  #renewOldVars(id: string): void {
    if (this.apps.get(id)?.fleet.hasOldVars)
      this.renewVars(id).catch((error: unknown) => this.#sayNotRenewed(id, error));
  }

  #sayNotRenewed(id: string, error: unknown): void {
    this.#say(id, 'error', `it does not start with the changed settings: ${reason(error)}`);
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
    return this.#require(id).fleet.withCell(purpose, use, options);
  }

  /**
   * Stops the app's process, lets `replace` change its storage, and starts the process again if one ran. Requests are queued
   * meanwhile.
   * @throws what `replace` throws
   */
  async replaceStorage(id: string, replace: () => Promise<void>): Promise<void> {
    const app = this.#require(id);
    await app.inTurn(() => app.fleet.replaceStorage(replace));
  }

  /**
   * Loads what a start of an app of another host would need. Does nothing for an app of this host.
   * @throws {Refusal} when the bucket has no record of the app; {Error} when it does not answer
   */
  async prepare(id: string): Promise<void> {
    if (this.apps.has(id)) return;
    const record = await this.#bucketOf(id).records.read(id);
    if (record === null)
      throw new Refusal(409, 'app_immovable', 'The app cannot move: the bucket has no record of it');
    if (record.liveDeployId !== null)
      await this.#placeInBucket(id, () => false).code.releases.load(record.liveDeployId);
  }

  /**
   * Ends an app, whose home is the host `to` now, and forgets it with its previews. Requests that wait go to that host. Does
   * nothing for an unknown app.
   * @param generation the one that gave it that home
   * @throws {StaleGeneration} when a newer state is known: it may have come back; {Refusal} for an app that cannot leave, and while it moves; {Error} when the bucket does not answer. Then it stays
   */
  async handOver(id: string, to: string, generation: number): Promise<void> {
    const app = this.apps.get(id);
    if (app === undefined) return;
    const { hosts } = this.#options;
    if (hosts == null || to === hosts.self)
      throw new Refusal(409, 'transition_conflict', 'The app is not handed over to the host that has it');
    if (app.cluster === null)
      throw new Refusal(409, 'app_immovable', 'The app cannot leave this host: its data is on its disk');
    await app.changes.closed(async () => {
      if (generation <= app.wanted.generation) throw stale({ id, generation });
      for (const each of this.#family(id)) await this.#finishStoring(this.#require(each));
      await this.#depart(app, hosts, to, generation);
    });
    log('info', 'an app was handed over to another host', { app: app.wanted.slug, host: to });
  }

  /** Stores what only this host's disk has. @throws {Error} when the bucket does not take it */
  async #finishStoring({ id, cluster, code }: App): Promise<void> {
    await code?.repository.settled();
    await cluster?.finishImport();
    await this.#options.buckets.moveIn(id);
  }

  /**
   * Ends and forgets an app and its previews.
   * @param to the host that gets its requests; null: they are refused
   * @param generation the one that gave it that home
   * @throws {Error} as `#leave` does. Then it goes on
   */
  async #depart(app: App, hosts: AppHosts, to: string | null, generation: number): Promise<void> {
    const family = this.#family(app.id).map((each) => this.#require(each));
    for (const { id } of family) await hosts.endDeploys(id);
    for (const { report, cluster } of family) {
      report.isSilent = true;
      cluster?.leaves();
    }
    const next = ({ id, wanted: { slug } }: App) =>
      to === null ? null : hosts.left(id, to, `${slug}.${this.#options.baseDomain}`);
    try {
      await this.#withoutProcesses(family, () => this.#leave(family, generation, next));
    } finally {
      for (const { report, cluster } of family) {
        report.isSilent = false;
        cluster?.stays();
      }
    }
    for (const each of family) await this.#tidyAfter(each, hosts);
  }

  /**
   * Forgets apps whose processes have ended, the parent of the others first.
   * @param next returns where the requests of each go
   * @throws {Error} when their records or the forgetting cannot be stored. Then nothing is forgotten
   */
  async #leave(family: App[], generation: number, next: (app: App) => Backend | null): Promise<void> {
    const { store } = this.#options;
    const { records } = this.#bucketOf(family[0]!.id);
    // A deleted preview may have gone meanwhile.
    const leaving = family.filter((each) => this.#isKnown(each));
    // Otherwise the next process would wait for the lease to expire.
    await Promise.all(leaving.map(({ cluster }) => cluster?.removeLeases()));
    for (const { id } of leaving) await records.leave(id);
    if (!this.#isKnown(family[0]!)) throw new Error('the app was deleted meanwhile');
    const [parent, ...previews] = leaving.map(({ id }) => id);
    store.transaction(() => store.records.forget(parent!, previews));
    for (const each of leaving) {
      const { id } = each;
      this.#left.set(id, generation);
      this.#activity.forget(id);
      this.hostNames.remove(each);
      this.consumers.set(id, []);
      this.apps.delete(id);
      const backend = next(each);
      if (backend !== null) each.fleet.movedTo(backend);
      // Not awaited: it ends after the operation that runs this.
      each.fleet.close('the app has moved to another host').catch(() => {});
    }
  }

  /** Ends the remaining work of an app that has left. Removes its files, except the cache of its code. */
  async #tidyAfter({ id, fleet }: App, hosts: AppHosts): Promise<void> {
    const { paths, buckets, outward, users } = this.#options;
    await fleet.close();
    // Those that were asked for meanwhile.
    await hosts.endDeploys(id);
    await buckets.forget(id);
    await outward.forget(id);
    const { cell } = users(id);
    if (cell !== null) await endProcessesOf(cell);
    hosts.ended(id);
    for (const path of [paths.run(id), paths.data(id)]) await removeTree(path);
  }

  /**
   * Takes an app from the bucket, if another host was its home and this one is now.
   * @throws {Refusal} when another host is its home, or the bucket does not answer
   */
  async #takeIfElsewhere(wanted: WantedApp): Promise<void> {
    const { hosts = null, bucket } = this.#options;
    if (hosts !== null && wanted.home === undefined) return;
    if (hosts !== null && wanted.home !== hosts.self)
      throw new Refusal(409, 'transition_conflict', `the home of app ${wanted.id} is host ${wanted.home}`);
    if (bucket === null || wanted.storage !== 'bucket') return;
    const known = this.apps.get(wanted.id);
    if (known !== undefined && wanted.generation <= known.wanted.generation) return;
    // The only host takes no app but one that was deleted.
    if (hosts === null && (known !== undefined || wanted.undeleted === undefined)) return;
    await this.#arrivals
      .run(wanted.id, () => this.#take(wanted, hosts, bucket))
      .catch((error: unknown) => {
        if (error instanceof Refusal || error instanceof StaleGeneration) throw error;
        if (error instanceof LeftBucket && wanted.undeleted !== undefined) throw gone();
        throw new Refusal(503, 'host_unavailable', `the app cannot be taken over: ${reason(error)}`);
      });
    this.#requireNewest(wanted);
  }

  async #take(wanted: WantedApp, hosts: AppHosts | null, bucket: Bucket): Promise<void> {
    const known = this.apps.get(wanted.id);
    if (known !== undefined && hosts !== null) {
      if (!(await bucket.records.isElsewhere(wanted.id))) return;
      // What this host has of it is older.
      await known.changes.closed(() => this.#depart(known, hosts, null, known.wanted.generation));
    }
    // The bucket has to say that the app was deleted, and what it was.
    if (this.#options.store.apps.isDeleted(wanted.id))
      await bucket.records.stored(wanted.id).catch((error: unknown) => {
        if (!(error instanceof OtherHome)) throw error;
      });
    const records = await this.#takeRecords(bucket, wanted);
    if (records === null) return;
    this.#requireNewest(wanted);
    this.#options.store.transaction(() => this.#options.store.records.takeOne(records));
    for (const record of records) this.#arrive(record, wanted);
    log('info', 'an app was taken from the bucket', { app: wanted.slug });
  }

  /** @throws {StaleGeneration} when a newer state is in the bucket; {Error} as `AppRecords.take` does */
  #takeRecords({ records }: Bucket, wanted: WantedApp): Promise<AppRecord[] | null> {
    return records.take(wanted).catch((error: unknown) => {
      if (!(error instanceof NewerRecord)) throw error;
      this.#newestInBucket = Math.max(this.#newestInBucket, error.generation);
      throw stale(wanted);
    });
  }

  /**
   * Takes the records of a deleted app, whose home was lost, and of its previews: otherwise nobody would remove their folders.
   * @returns them, the app's first
   */
  async #takeLeft(id: string, generation: number): Promise<AppRecord[]> {
    const { hosts, bucket } = this.#options;
    if (hosts == null || bucket === null) return [];
    const record = await bucket.records.read(id);
    if (record === null) return [];
    const records = await this.#takeRecords(bucket, { ...record.wanted, generation, home: hosts.self });
    return records ?? [];
  }

  /** Adds an app with its record, before it gets requests. */
  #restore(record: AppRecord, parent: WantedApp, rest: { dueAt: null } | null): App {
    const { id } = record.wanted;
    const { liveDeployId, deployedAt, asleepSince, wokeAt } = record;
    const app = record.preview === null ? this.#open(parent) : this.#openPreview(parent, record.preview);
    this.#left.delete(id);
    if (record.preview === null) this.consumers.set(id, record.consumes);
    app.restore({ liveDeployId, deployedAt, sleep: { asleepSince, wokeAt }, rest, heldFor: undefined });
    this.#options.onRestored(id);
    return app;
  }

  #arrive(record: AppRecord, parent: WantedApp): void {
    const { liveDeployId } = record;
    const app = this.#restore(record, parent, { dueAt: null });
    if (liveDeployId === null || app.fleet.state !== 'idle') return void this.#learnDue(app);
    if (record.preview === null && !Number.isFinite(this.#options.idleMs)) void app.startInTurn();
    else void this.#learnDue(app);
  }

  /** Finds out when an app that has arrived has work to do. Never rejects. */
  #learnDue({ cluster, fleet }: App): Promise<void> {
    const next = async () => {
      const at = (await cluster?.nextAlarm()) ?? null;
      // Steps of Workflows, which were cut, have alarms that lie so far ahead.
      return at !== null && at <= Date.now() + AT_WORK_MS ? Date.now() : at;
    };
    const queries = { areAlarmsUnread: () => true, alarmsAreRead: () => {} };
    const signal = AbortSignal.any([this.#closing.signal, fleet.closing]);
    return learnDueTimes(queries, [{ learn: () => fleet.learnDue(next) }], signal);
  }

  /** Runs `work` while no process of these apps runs and their requests wait. */
  #withoutProcesses(family: App[], work: () => Promise<void>): Promise<void> {
    return family.reduceRight<() => Promise<void>>(
      (rest, each) => () => each.inTurn(() => each.fleet.replaceStorage(rest)),
      work,
    )();
  }

  /**
   * Moves the data and code of an app and of its previews. Meanwhile none of their processes runs, requests are queued, and
   * pushes are refused.
   * @param to where it keeps them afterwards
   * @param copy copies those of one app, which begins there only after all copies have succeeded. Its signal aborts when the
   *   app is deleted
   * @param begin takes the copied data into use. It is repeated until it succeeds
   * @returns false: it is there already, and nothing was done
   * @throws {Refusal} while it is deployed or moved; what `copy` throws. Then it stays where it was
   */
  async move(
    id: string,
    to: Place,
    copy: (app: App, place: BucketPlace, signal: AbortSignal) => Promise<void>,
    begin: (app: App) => Promise<void>,
  ): Promise<boolean> {
    const app = this.#known(id);
    const isMoved = await app.changes.closed(async () => {
      const from = app.wanted.storage ?? 'local';
      // Another move may have ended since the caller looked.
      if (from === to) return false;
      const family = this.#family(id).map((each) => this.#require(each));
      const places = new Map(family.map((each) => [each, this.#placeInBucket(each.id)]));
      this.#requireNoDeploy(family);
      const moveAll = async () => {
        try {
          await this.#copyAll(app, places, copy);
          await this.#moved(app, places, { from, to });
        } catch (error) {
          await Promise.allSettled(family.map((each) => removeTree(this.#options.paths.moving(each.id))));
          throw error;
        }
        for (const each of family) await this.#beginMoved(each, begin);
      };
      await this.#withoutProcesses(family, moveAll);
      return true;
    });
    if (isMoved) app.report.moved();
    return isMoved;
  }

  async #copyAll(
    app: App,
    places: Map<App, BucketPlace>,
    copy: (app: App, place: BucketPlace, signal: AbortSignal) => Promise<void>,
  ): Promise<void> {
    // A deploy may have been queued while the processes ended.
    this.#requireNoDeploy([...places.keys()]);
    for (const [each, place] of places) {
      const signal = AbortSignal.any([app.fleet.closing, each.fleet.closing]);
      await copy(each, place, signal).catch((error: unknown) => {
        // A preview that was deleted meanwhile moves nowhere.
        if (each === app || this.#isKnown(each)) throw error;
      });
    }
  }

  /** Records that an app and its previews have moved. @throws {Error} when that cannot be stored; they stay where they were */
  async #moved(
    app: App,
    places: Map<App, BucketPlace>,
    { from, to }: Record<'from' | 'to', Place>,
  ): Promise<void> {
    if (!this.#isKnown(app)) throw new Error('the app was deleted meanwhile');
    this.#setPlace([...places.keys()], to);
    try {
      await this.#options.store.synced();
    } catch (error) {
      this.#setPlace([...places.keys()], from);
      throw error;
    }
    for (const [each, { cluster, code }] of places) each.moved(to === 'bucket' ? { cluster, code } : null);
  }

  /** Records where apps are. Skips deleted ones. */
  #setPlace(apps: App[], place: Place): void {
    const { store } = this.#options;
    const known = apps.filter((app) => this.#isKnown(app));
    const wanted = known.map((app) => ({ ...app.wanted, storage: place }));
    store.transaction(() => {
      for (const each of wanted) {
        store.apps.want(each);
        store.folderRemovals.delete(each.id);
        if (place === 'local')
          store.folderRemovals.add(each.id, new Date(Date.now() + KEPT_MS).toISOString());
      }
    });
    // Only once they are committed. At once, so that a change of the app meanwhile keeps the place.
    for (const [at, app] of known.entries()) app.wanted = wanted[at]!;
  }

  /** The app has moved, so nothing may use its old data: what fails is repeated until the app is deleted or the host ends. */
  async #beginMoved(app: App, begin: (app: App) => Promise<void>): Promise<void> {
    const { signal } = this.#closing;
    while (this.#isKnown(app)) {
      try {
        await begin(app);
        break;
      } catch (error) {
        signal.throwIfAborted();
        logRarely('error', 'the data of a moved app cannot be taken into use; it is tried again', {
          app: app.wanted.slug,
          error: reason(error),
        });
        await sleep(BEGIN_RETRY_MS, undefined, { signal });
      }
    }
    await this.#options.bucket?.records.stored(app.id).catch((error: unknown) =>
      log('warn', 'the record of a moved app is not in the bucket yet; it is tried again', {
        app: app.wanted.slug,
        error: reason(error),
      }),
    );
  }

  /** @throws {Refusal} while one of the apps is deployed */
  #requireNoDeploy(apps: App[]): void {
    if (apps.some(({ id }) => this.#options.store.deploys.lastAsked(id)?.isUnderWay))
      throw new Refusal(409, 'transition_conflict', 'A deploy is under way; move the app when it has ended');
  }

  #isKnown(app: App): boolean {
    return this.apps.get(app.id) === app;
  }

  /**
   * Adds a preview of an existing app: an app on this host only, unknown to the control plane. It is recorded when this
   * returns.
   */
  addPreview(row: PreviewRow): void {
    const { store } = this.#options;
    const { wanted: parent, changes } = this.apps.get(row.parentId)!;
    changes.requireOpen();
    store.transaction(() => {
      // The rest is derived from its parent's state on each read.
      store.apps.want({ ...previewOf(parent, row, this.#options.baseDomain), env: {} });
      store.previews.add(row);
    });
    this.#openPreview(parent, row);
  }

  /** Updates the version that a preview shows, and the time until which it is kept. */
  renewPreview(row: PreviewRow): void {
    this.#options.store.previews.renew(row.id, row.versionId, row.expiresAt);
    this.#openPreview(this.apps.get(row.parentId)!.wanted, row);
  }

  /**
   * Gives a preview a share of its app's requests, as the second version of a split. The second version before it gets none.
   * @param share the percentage, from 0 to less than 100
   */
  share(id: string, share: number): void {
    const { preview } = this.#require(id);
    const parent = this.#require(preview!.parentId);
    this.#options.store.transaction(() => this.#options.store.previews.setShare(parent.id, id, share));
    if (parent.second?.app.id !== id) this.#endSplit(parent);
    this.#openPreview(parent.wanted, { ...preview!, share });
  }

  /** Lets the live release of an app have all requests again. The second version, if any, can then be deleted. */
  endSplit(id: string): void {
    this.#options.store.transaction(() => this.#options.store.previews.endSplit(id));
    this.#endSplit(this.#require(id));
  }

  #endSplit(app: App): void {
    const { second } = app;
    if (second === null) return;
    app.second = null;
    second.app.preview = { ...second.app.preview!, share: null };
    // Requests that wait for its process go on to the live release.
    second.app.fleet.movedTo(app.fleet);
  }

  /** Takes the requests of a second version that is deleted. */
  #withdraw(app: App): void {
    const parent = app.preview === null ? undefined : this.apps.get(app.preview.parentId);
    if (parent?.second?.app === app) this.#endSplit(parent);
  }

  /** Ends the processes of apps that another host may run, because this host is cut off from the others. */
  cutOff(): void {
    for (const { cluster, fleet } of this.apps.values()) if (cluster !== null) fleet.cutOff().catch(() => {});
  }

  /** The newest generation that is known of any app; 0 when there is none. */
  get highestGeneration(): number {
    return Math.max(this.#options.store.apps.highestGeneration(), this.#newestInBucket);
  }

  /** Whether an app has its data on the disk of this host. */
  get hasLocal(): boolean {
    return [...this.apps.values()].some(({ preview, cluster }) => preview === null && cluster === null);
  }

  /** How many apps this host has, without previews, and how many processes. */
  get counts(): { apps: number; running: number } {
    const all = [...this.apps.values()];
    return {
      apps: all.filter(({ preview }) => preview === null).length,
      running: all.filter(({ fleet }) => fleet.pid !== null).length,
    };
  }

  /**
   * Call it when the bucket answers again, or this host is no longer cut off. Lets apps
   * that crashed meanwhile start.
   */
  bucketIsBack(): void {
    for (const { cluster, fleet } of this.apps.values())
      if (cluster !== null) fleet.bucketIsBack().catch(() => {});
  }

  /** Drains and stops every fleet. */
  async close(): Promise<void> {
    this.#closing.abort();
    for (const app of this.apps.values()) this.#reportUsage(app);
    await Promise.all([...this.apps.values()].map((app) => app.fleet.close()));
    this.#activity.keep(this.apps.values());
  }

  /** Creates or updates an app with its wanted state, and routes its host names. Leaves its process alone. */
  #open(wanted: WantedApp, preview: PreviewRow | null = null): App {
    const { id, slug } = wanted;
    const known = this.apps.get(id);
    if (known) this.hostNames.remove(known);
    const app = known ?? this.#make(wanted, preview);
    if (app.wanted.desired_state === 'stopped' && wanted.desired_state === 'running') app.marked(false);
    app.wanted = wanted;
    app.preview = preview;
    app.fleet.scale(wanted.replicas ?? 1);
    this.apps.set(id, app);
    this.#options.onNamed(id, slug);
    this.hostNames.add(app);
    this.onAdded();
    return app;
  }

  #make(wanted: WantedApp, preview: PreviewRow | null): App {
    const { id } = wanted;
    const { cluster, code } = wanted.storage === 'bucket' ? this.#placeInBucket(id) : ON_THIS_MACHINE;
    const fleet = fleetOf({ id, preview, cluster, code }, this.#activity, this.#options, {
      owner: () => this.ownerOf(id),
      vars: () => this.apps.get(id)?.wanted.vars ?? {},
      say: (level, words) => this.#say(reportedApp({ id, preview }), level, words),
      onState: (state) => this.apps.get(id)?.report.changed(state),
      onAsleep: (asleep) => {
        const app = this.apps.get(id);
        log('info', asleep ? 'app goes to sleep' : 'app wakes', { app: app?.wanted.slug });
        app?.marked(asleep);
      },
      onRest: async (rest) => {
        if (!this.apps.has(id)) return;
        this.#activity.setRest(id, rest);
        if (rest === null) await this.#synced();
      },
    });
    const releaseDirectory = (deployId: string) => this.#options.paths.release(id, deployId);
    return new App({ wanted, preview, fleet, cluster, code, reports: this.#options, releaseDirectory });
  }

  #placeInBucket(
    id: string,
    // The code of an app that has left stays.
    isDeleted = () => !(this.apps.has(id) || this.#left.has(id)),
  ): BucketPlace {
    const bucket = this.#bucketOf(id);
    return {
      cluster: bucket.cluster(id, (words) => this.#say(id, 'warn', words)),
      code: bucket.code(id, { owner: () => this.ownerOf(id), isDeleted }),
    };
  }

  /** @throws {Error} when the host has no bucket any more */
  #bucketOf(id: string): Bucket {
    const { bucket } = this.#options;
    if (bucket === null)
      throw new Error(
        `app ${id} keeps its data in a bucket: start Cellar with RUNNER_BUCKET and the settings of that bucket`,
      );
    return bucket;
  }

  #openPreview(parent: WantedApp, row: PreviewRow): App {
    const preview = this.#open(previewOf(parent, row, this.#options.baseDomain), row);
    if (row.share != null) this.#splitWith(preview, row, row.share);
    return preview;
  }

  #splitWith(second: App, { parentId, versionId }: PreviewRow, share: number): void {
    const app = this.#require(parentId);
    const live =
      app.liveDeployId === null ? undefined : this.#options.store.deploys.find(parentId, app.liveDeployId);
    if (live === undefined || versionId === null) return;
    const { slug } = app.wanted;
    app.second = { app: second, slug, first: uuidOf(versionOf(live).id), second: uuidOf(versionId), share };
  }

  /** Applies a changed parent's state to a preview: its address, and whether it is stopped. Its next request starts it. */
  #follow(parent: WantedApp, row: PreviewRow): void {
    const preview = this.#openPreview(parent, row);
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

  /** Returns the ids of an app and of its previews. */
  #family(id: string): string[] {
    return [id, ...this.previews(id).map((preview) => preview.id)];
  }

  #require(id: string): App {
    const app = this.apps.get(id);
    if (!app) throw new Error('the app was deleted');
    return app;
  }

  /** @throws {Refusal} for an unknown app */
  #known(id: string): App {
    const app = this.apps.get(id);
    if (!app) throw new Refusal(404, 'app_not_found', 'no such app');
    return app;
  }

  /** @throws {StaleGeneration} as `#requireFresh` does, and for a deleted app */
  #requireNewest(given: WantedApp): void {
    const { apps } = this.#options.store;
    // Only an undeletion that is newer than the deletion revokes it.
    if (
      apps.isDeleted(given.id) &&
      !(given.undeleted !== undefined && given.undeleted > apps.generation(given.id))
    )
      throw stale(given);
    this.#requireFresh(given);
  }

  /** @throws {StaleGeneration} when the host knows a newer state of the app */
  #requireFresh(given: { id: string; generation: number }): void {
    const known = Math.max(this.#options.store.apps.generation(given.id), this.#left.get(given.id) ?? 0);
    if (given.generation < known) throw stale(given);
  }

  /** Sends a message about an app to its owner; logs it too, unless it is only information. */
  #say(id: string, level: Level, words: string): void {
    if (level !== 'info') log(level, `app: ${words}`, { app: this.apps.get(id)?.wanted.slug });
    this.#options.say(id, level, words);
  }

  /** Resolves when commits are durable. Never rejects: apps continue on a failing disk. */
  async #synced(): Promise<void> {
    await this.#options.store
      .synced()
      .catch((error: unknown) => logRarely('error', NOT_SYNCED, { error: reason(error) }));
  }

  #reportUsage({ id, fleet }: App): void {
    const usage = fleet.takeUsage();
    if (usage !== null) this.#options.onUsage(id, usage);
  }
}

function gone(): Refusal {
  return new Refusal(404, 'app_not_found', 'The data of the app is no longer in the trash');
}

function stale({ id, generation }: { id: string; generation: number }): StaleGeneration {
  return new StaleGeneration(`generation ${generation} of app ${id} is older than what this host knows`);
}

/** Does `work` for all apps, for at most `count` of them at once. */
async function someAtOnce(count: number, apps: App[], work: (app: App) => Promise<void>): Promise<void> {
  const next = async () => {
    for (let app = apps.shift(); app; app = apps.shift()) await work(app);
  };
  await Promise.all(Array.from({ length: count }, next));
}
