// Moves of apps between the disk of this host and the bucket.
import { setTimeout as sleep } from 'node:timers/promises';
import { OtherHome } from '../../bucket/records/app-records.ts';
import { removeTree } from '../../disk/remove.ts';
import { KEPT_MS } from '../../disk/trash.ts';
import { log, logRarely, reason } from '../../log.ts';
import { Refusal } from '../../refusal.ts';
import type { App } from '../app.ts';
import type { BucketPlace, OpenApps, Place } from '../known/open-apps.ts';

/** Pause before the next attempt to take a moved app's data into use, in ms. */
const BEGIN_RETRY_MS = 1_000;

/** Moves apps with their previews. */
export class PlaceMoves {
  readonly #apps: OpenApps;

  constructor(apps: OpenApps) {
    this.#apps = apps;
  }

  /**
   * Moves the data and code of an app and of its previews. Meanwhile none of their processes runs, requests are queued,
   * and pushes are refused.
   * @param to where the app keeps them afterwards
   * @param copy copies the data and code of one app. Its signal aborts when the app is deleted, or the host ends
   * @param begin takes one app's copy into use, once all copies have succeeded. After a failure it is repeated
   * @returns whether the app was moved; false when it keeps its data in `to` already
   * @throws {Refusal} while the app is deployed or moved, and when another host takes it meanwhile; what `copy` throws. Then
   *   the app stays where it was
   */
  async move(
    id: string,
    to: Place,
    copy: (app: App, place: BucketPlace, signal: AbortSignal) => Promise<void>,
    begin: (app: App) => Promise<void>,
  ): Promise<boolean> {
    const app = this.#apps.requireKnown(id);
    const isMoved = await app.changes.closed(async () => {
      const from = app.wanted.storage ?? 'local';
      // Another move may have ended since the caller looked.
      if (from === to) return false;
      const family = this.#apps.family(id).map((each) => this.#apps.require(each));
      const places = new Map(family.map((each) => [each, this.#apps.placeInBucket(each.id)]));
      this.#requireNoDeploy(family);
      const moveAll = async () => {
        try {
          await this.#copyAll(app, places, copy);
          await this.#moved(app, places, { from, to });
        } catch (error) {
          await Promise.allSettled(
            family.map((each) => removeTree(this.#apps.options.paths.moving(each.id))),
          );
          throw error;
        }
        for (const each of family) await this.#beginMoved(each, begin);
      };
      await this.#apps.withoutProcesses(family, moveAll);
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
        // A failed copy of a preview that was deleted meanwhile does not matter.
        if (each === app || this.#apps.isKnown(each)) throw error;
      });
    }
  }

  /**
   * Records that an app and its previews have moved.
   * @throws {Refusal} when another host has taken the app; {Error} when that cannot be stored, or the app was deleted. Then
   *   they stay where they were
   */
  async #moved(
    app: App,
    places: Map<App, BucketPlace>,
    { from, to }: Record<'from' | 'to', Place>,
  ): Promise<void> {
    if (!this.#apps.isKnown(app)) throw new Error('the app was deleted meanwhile');
    this.#setPlace([...places.keys()], to);
    try {
      await this.#apps.options.store.synced();
      if (to === 'local') await this.#leaveBucket([...places.keys()]);
    } catch (error) {
      this.#setPlace([...places.keys()], from);
      if (!(error instanceof OtherHome)) throw error;
      throw new Refusal(409, 'transition_conflict', 'Another host has taken the app over during the move');
    }
    for (const [each, { cluster, code }] of places) each.moved(to === 'bucket' ? { cluster, code } : null);
  }

  /**
   * Writes to the bucket that apps are on this disk, so that no other host takes them from now on. Does nothing in a Cellar
   * of one host.
   * @throws {OtherHome} when another host has taken one; {Error} when the bucket does not take a record
   */
  async #leaveBucket(apps: App[]): Promise<void> {
    const { hosts = null, bucket } = this.#apps.options;
    if (hosts === null) return;
    const known = apps.filter((app) => this.#apps.isKnown(app));
    for (const { id } of known) await bucket?.records.stored(id);
  }

  /** Records where apps keep their data, and when their folders are removed from the bucket. Skips deleted apps. */
  #setPlace(apps: App[], place: Place): void {
    const { store } = this.#apps.options;
    const known = apps.filter((app) => this.#apps.isKnown(app));
    const wanted = known.map((app) => ({ ...app.wanted, storage: place }));
    store.transaction(() => {
      for (const each of wanted) {
        store.apps.want(each);
        store.folderRemovals.delete(each.id);
        if (place === 'local')
          store.folderRemovals.add(each.id, new Date(Date.now() + KEPT_MS).toISOString());
      }
    });
    // After the commit and without an `await`, so that a change of the app meanwhile keeps the new place.
    for (const [at, app] of known.entries()) app.wanted = wanted[at]!;
  }

  /**
   * Takes a moved app's data into use. Repeats a failed attempt until the app is deleted or the host ends, because
   * nothing may use the old data.
   */
  async #beginMoved(app: App, begin: (app: App) => Promise<void>): Promise<void> {
    const { signal } = this.#apps.closing;
    while (this.#apps.isKnown(app)) {
      try {
        await begin(app);
        break;
      } catch (error) {
        signal.throwIfAborted();
        logRarely('error', 'an app cannot start with its moved data; Cellar tries again', {
          app: app.wanted.slug,
          error: reason(error),
        });
        await sleep(BEGIN_RETRY_MS, undefined, { signal });
      }
    }
    await this.#apps.options.bucket?.records.stored(app.id).catch((error: unknown) =>
      log('warn', 'the record of a moved app could not be written to the bucket; Cellar tries again', {
        app: app.wanted.slug,
        error: reason(error),
      }),
    );
  }

  /** @throws {Refusal} while one of the apps is deployed */
  #requireNoDeploy(apps: App[]): void {
    if (apps.some(({ id }) => this.#apps.options.store.deploys.lastAsked(id)?.isUnderWay))
      throw new Refusal(409, 'transition_conflict', 'A deploy is under way; move the app when it has ended');
  }
}
