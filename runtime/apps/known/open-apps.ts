// The apps that are open on this host: each has a fleet, which manages its processes, and its host names reach it.
import { versionOf } from '../../../handlers/contract/apps/versions.ts';
import type { WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import { uuidOf } from '../../../handlers/contract/id.ts';
import type { AppRecord } from '../../../sqlite/host/app-records.ts';
import type { PreviewRow } from '../../../sqlite/host/previews.ts';
import type { AppCluster } from '../../bucket/app-cluster.ts';
import type { Bucket } from '../../bucket/bucket.ts';
import type { AppCode } from '../../bucket/code/app-code.ts';
import { type Level, log, logRarely, reason } from '../../log.ts';
import { noSuchApp } from '../../refusal.ts';
import { App } from '../app.ts';
import { fleetOf } from '../fleet-of-app.ts';
import { previewOf, reportedApp } from '../preview-app.ts';
import type { AppsOptions } from './apps-options.ts';
import { StoredActivity } from './kept-activity.ts';
import { KnownApps } from './known-apps.ts';

const NOT_SYNCED = 'the record of an app could not be synced to the disk; Cellar tries again';

/** Where an app keeps its data and code: on the disk of this host, or in the bucket. */
export type Place = 'local' | 'bucket';

/** Access to the data and code of an app in the bucket. */
export interface BucketPlace {
  cluster: AppCluster;
  code: AppCode;
}

const ON_THIS_MACHINE = { cluster: null, code: null };

/** A wanted state, or an order, is older than one that the host has already seen. */
export class StaleGeneration extends Error {}

/** Returns the error for a state or an order of that generation: a number that each change of the wanted state raises. */
export function stale({ id, generation }: { id: string; generation: number }): StaleGeneration {
  return new StaleGeneration(`generation ${generation} of app ${id} is older than what this host knows`);
}

/** Opens apps and forgets them. `Apps` extends it, and the classes in `changes/` use it. */
export class OpenApps extends KnownApps {
  readonly options: AppsOptions;
  readonly activity: StoredActivity;
  /** Aborted when the host ends. */
  readonly closing = new AbortController();
  /** Apps that have left for another host since this host started, with the generation that gave them the new home. */
  readonly left = new Map<string, number>();
  /** The highest generation that the bucket had when the control plane sent an older one. */
  newestInBucket = 0;

  constructor(options: AppsOptions) {
    super(options.baseDomain, options.paths);
    this.options = options;
    this.activity = new StoredActivity(options.store);
  }

  /** Returns an app, to change it; `get` is for reading. */
  app(id: string): App | undefined {
    return this.apps.get(id);
  }

  /** Returns an app. @throws {Error} when it was deleted meanwhile */
  require(id: string): App {
    const app = this.apps.get(id);
    if (!app) throw new Error('the app was deleted');
    return app;
  }

  /** Sends all requests to the live version again when a second version is deleted. */
  #withdraw(app: App): void {
    const parent = app.preview === null ? undefined : this.apps.get(app.preview.parentId);
    if (parent?.second?.app === app) this.clearSplit(parent);
  }

  /** Sends all requests to the app's live version again. Stores nothing. */
  clearSplit(app: App): void {
    const { second } = app;
    if (second === null) return;
    app.second = null;
    second.app.preview = { ...second.app.preview!, share: null };
    // Requests that wait for the second version's process go to the live release.
    second.app.fleet.movedTo(app.fleet);
  }

  /** @throws {Refusal} for an unknown app */
  requireKnown(id: string): App {
    const app = this.apps.get(id);
    if (!app) throw noSuchApp();
    return app;
  }

  /** Returns the ids of an app and of its previews. */
  family(id: string): string[] {
    return [id, ...this.previews(id).map((preview) => preview.id)];
  }

  /** Whether an app was neither deleted nor handed over. */
  isKnown(app: App): boolean {
    return this.apps.get(app.id) === app;
  }

  /** @throws {StaleGeneration} as `requireFresh` does, and for a deleted app */
  requireNewest(given: WantedApp): void {
    const { apps } = this.options.store;
    // Only an undeletion that is newer than the deletion revokes it.
    if (
      apps.isDeleted(given.id) &&
      !(given.undeleted !== undefined && given.undeleted > apps.generation(given.id))
    )
      throw stale(given);
    this.requireFresh(given);
  }

  /** @throws {StaleGeneration} when the host knows a newer state of the app */
  requireFresh(given: { id: string; generation: number }): void {
    const known = Math.max(this.options.store.apps.generation(given.id), this.left.get(given.id) ?? 0);
    if (given.generation < known) throw stale(given);
  }

  /** Runs `work` while no process of these apps runs and their requests wait. */
  withoutProcesses(family: App[], work: () => Promise<void>): Promise<void> {
    return family.reduceRight<() => Promise<void>>(
      (rest, each) => () => each.inTurn(() => each.fleet.replaceStorage(rest)),
      work,
    )();
  }

  /** Creates or updates an app with its wanted state, and routes its host names. Does not start or stop the app. */
  open(wanted: WantedApp, preview: PreviewRow | null = null): App {
    const { id, slug } = wanted;
    const known = this.apps.get(id);
    if (known) this.hostNames.remove(known);
    const app = known ?? this.#make(wanted, preview);
    if (app.wanted.desired_state === 'stopped' && wanted.desired_state === 'running') app.marked(false);
    app.wanted = wanted;
    app.preview = preview;
    app.fleet.scale(wanted.replicas ?? 1);
    this.apps.set(id, app);
    this.options.onNamed(id, slug);
    this.hostNames.add(app);
    this.onAdded();
    return app;
  }

  openPreview(parent: WantedApp, row: PreviewRow): App {
    const preview = this.open(previewOf(parent, row, this.options.baseDomain), row);
    if (row.share != null) this.#splitWith(preview, row, row.share);
    return preview;
  }

  /**
   * Adds an app or a preview from its record.
   * @param parent the wanted state of the app, or of the preview's parent
   * @param rest the state of rest that is recorded, so that the next boot does not start the app; null for none
   */
  restore(record: AppRecord, parent: WantedApp, rest: { dueAt: null } | null): App {
    const { id } = record.wanted;
    const { liveDeployId, deployedAt, asleepSince, wokeAt } = record;
    const app = record.preview === null ? this.open(parent) : this.openPreview(parent, record.preview);
    this.left.delete(id);
    if (record.preview === null) this.consumers.set(id, record.consumes);
    app.restore({ liveDeployId, deployedAt, sleep: { asleepSince, wokeAt }, rest, heldFor: undefined });
    if (rest !== null) this.activity.setRest(id, rest);
    this.options.onRestored(id);
    return app;
  }

  #make(wanted: WantedApp, preview: PreviewRow | null): App {
    const { id } = wanted;
    const { cluster, code } = wanted.storage === 'bucket' ? this.placeInBucket(id) : ON_THIS_MACHINE;
    const fleet = fleetOf({ id, preview, cluster, code }, this.activity, this.options, {
      owner: () => this.ownerOf(id),
      vars: () => this.apps.get(id)?.wanted.vars ?? {},
      say: (level, words) => this.say(reportedApp({ id, preview }), level, words),
      onState: (state) => this.apps.get(id)?.report.changed(state),
      onAsleep: (asleep) => {
        const app = this.apps.get(id);
        log('info', asleep ? 'app goes to sleep' : 'app wakes', { app: app?.wanted.slug });
        app?.marked(asleep);
      },
      onRest: async (rest) => {
        if (!this.apps.has(id)) return;
        this.activity.setRest(id, rest);
        if (rest === null) await this.synced();
      },
    });
    const releaseDirectory = (deployId: string) => this.options.paths.release(id, deployId);
    return new App({ wanted, preview, fleet, cluster, code, reports: this.options, releaseDirectory });
  }

  /**
   * Returns the access to an app's data and code in the bucket. @throws {Error} when `RUNNER_BUCKET` is not set any more
   */
  placeInBucket(
    id: string,
    // The code of an app that has left for another host must stay in the bucket.
    isDeleted = () => !(this.apps.has(id) || this.left.has(id)),
  ): BucketPlace {
    const bucket = this.bucketOf(id);
    return {
      cluster: bucket.cluster(id, (words) => this.say(id, 'warn', words)),
      code: bucket.code(id, { owner: () => this.ownerOf(id), isDeleted }),
    };
  }

  /** Starts a split: gives the second version of an app its share of the app's requests. */
  #splitWith(second: App, { parentId, versionId }: PreviewRow, share: number): void {
    const app = this.require(parentId);
    const live =
      app.liveDeployId === null ? undefined : this.options.store.deploys.find(parentId, app.liveDeployId);
    if (live === undefined || versionId === null) return;
    const { slug } = app.wanted;
    app.second = { app: second, slug, first: uuidOf(versionOf(live).id), second: uuidOf(versionId), share };
  }

  /** @throws {Error} when `RUNNER_BUCKET` is not set any more */
  bucketOf(id: string): Bucket {
    const { bucket } = this.options;
    if (bucket === null)
      throw new Error(
        `app ${id} keeps its data in a bucket: start Cellar with RUNNER_BUCKET and the settings of that bucket`,
      );
    return bucket;
  }

  /** Writes a line into an app's log; also into the host's log, unless the level is `info`. */
  say(id: string, level: Level, words: string): void {
    if (level !== 'info') log(level, `app: ${words}`, { app: this.apps.get(id)?.wanted.slug });
    this.options.say(id, level, words);
  }

  /** Resolves when commits are durable. Never rejects: apps continue on a failing disk. */
  async synced(): Promise<void> {
    await this.options.store
      .synced()
      .catch((error: unknown) => logRarely('error', NOT_SYNCED, { error: reason(error) }));
  }

  /** Forgets an app: its host names no longer lead to it. Does not end its processes. */
  forget(app: App): void {
    this.#withdraw(app);
    this.hostNames.remove(app);
    this.consumers.set(app.id, []);
    this.apps.delete(app.id);
  }
}
