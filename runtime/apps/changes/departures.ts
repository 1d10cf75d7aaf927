// Apps that leave for another host.

import { removeTree } from '../../disk/remove.ts';
import type { Backend } from '../../edge/upstream/backend.ts';
import { log } from '../../log.ts';
import { endProcessesOf } from '../../processes/orphaned-processes.ts';
import { Refusal } from '../../refusal.ts';
import type { App } from '../app.ts';
import type { AppHosts } from '../known/apps-options.ts';
import { type OpenApps, stale } from '../known/open-apps.ts';

export class Departures {
  readonly #apps: OpenApps;

  constructor(apps: OpenApps) {
    this.#apps = apps;
  }

  /**
   * Stops an app whose new home (the host that runs it) is `to`. Forgets it with its previews. Waiting requests go to `to`.
   * Does nothing for an unknown app.
   * @param generation of the order that moves the app: a number that each change of the app's wanted state raises
   * @throws {StaleGeneration} when a newer state is known, because the app may have come back
   * @throws {Refusal} for an app that cannot leave, and during a move
   * @throws {Error} when the bucket does not answer; after any error the app stays
   */
  async handOver(id: string, to: string, generation: number): Promise<void> {
    const app = this.#apps.app(id);
    if (app === undefined) return;
    const { hosts } = this.#apps.options;
    if (hosts == null || to === hosts.self)
      throw new Refusal(
        409,
        'transition_conflict',
        'The app can be handed over only to another host of this Cellar',
      );
    if (app.cluster === null)
      throw new Refusal(
        409,
        'app_immovable',
        'The app cannot leave this host: its data is on the disk of this host',
      );
    await this.#abandonImports(app);
    // Not with a 503, which would look like a host that does not answer, and whose apps other hosts take.
    if (!app.changes.isOpen)
      throw new Refusal(
        409,
        'transition_conflict',
        'The app is being moved already; try again when the move has ended',
      );
    await this.#alone(app, async () => {
      if (generation <= app.wanted.generation) throw stale({ id, generation });
      for (const each of this.#apps.family(id)) await this.#finishStoring(this.#apps.require(each));
      await this.#depart(app, hosts, to, generation);
    });
    log('info', 'an app was handed over to another host', { app: app.wanted.slug, host: to });
  }

  /** Forgets an app that another host has changed since, with its previews. @throws {Error} as `handOver` does */
  async forget(app: App, hosts: AppHosts): Promise<void> {
    await this.#abandonImports(app);
    await this.#alone(app, () => this.#depart(app, hosts, null, app.wanted.generation));
  }

  /** Runs `work` while the app has no other changes. @throws {Refusal} during a move; what `work` throws */
  async #alone(app: App, work: () => Promise<void>): Promise<void> {
    await app.changes.closed(async () => {
      // An import may have begun since the earlier call, which ends one that the gate would wait for.
      await this.#abandonImports(app);
      await work();
    });
  }

  /** Gives up the restored data of an app and its previews if another host has taken them: its data may be newer. */
  async #abandonImports({ id }: App): Promise<void> {
    const clusters = this.#apps.family(id).map((each) => this.#apps.require(each).cluster);
    const waiting = clusters.filter((cluster) => cluster?.isImporting);
    if (waiting.length === 0 || !(await this.#apps.bucketOf(id).records.isElsewhere(id))) return;
    for (const cluster of waiting) await cluster?.abandonImport(this.#apps.options.paths.trash);
  }

  /** Stores what only this host's disk has. @throws {Error} when the bucket does not take it */
  async #finishStoring({ id, cluster, code }: App): Promise<void> {
    await code?.repository.settled();
    await cluster?.finishImport();
    await this.#apps.options.buckets.moveIn(id);
  }

  /**
   * Ends and forgets an app and its previews.
   * @param to the id of the host to which the app's requests go; null: they are refused
   * @param generation of the order that moves the app: a number that each change of the app's wanted state raises
   * @throws {Error} as `#leave` does; then the apps continue here
   */
  async #depart(app: App, hosts: AppHosts, to: string | null, generation: number): Promise<void> {
    const family = this.#apps.family(app.id).map((each) => this.#apps.require(each));
    for (const { id } of family) await hosts.endDeploys(id);
    for (const { report, cluster } of family) {
      report.isSilent = true;
      cluster?.leaves();
    }
    const next = ({ id, wanted: { slug } }: App) =>
      to === null ? null : hosts.left(id, to, `${slug}.${this.#apps.options.baseDomain}`);
    try {
      await this.#apps.withoutProcesses(family, () => this.#leave(family, generation, next));
    } finally {
      for (const { report, cluster } of family) {
        report.isSilent = false;
        cluster?.stays();
      }
    }
    for (const each of family) await this.#tidyAfter(each, hosts);
  }

  /**
   * Writes the records of apps whose processes have ended, and forgets the apps: an app, then its previews.
   * @param next returns where the requests of an app go from now on; null: they are refused
   * @throws {Error} when their records or the forgetting cannot be stored. Then no app is forgotten
   */
  async #leave(family: App[], generation: number, next: (app: App) => Backend | null): Promise<void> {
    const { store } = this.#apps.options;
    const { records } = this.#apps.bucketOf(family[0]!.id);
    // Without previews that were deleted meanwhile.
    const leaving = family.filter((each) => this.#apps.isKnown(each));
    // Otherwise the app's next process would wait for the lease to expire.
    await Promise.all(leaving.map(({ cluster }) => cluster?.removeLeases()));
    for (const { id } of leaving) await records.leave(id);
    if (!this.#apps.isKnown(family[0]!)) throw new Error('the app was deleted meanwhile');
    const [parent, ...previews] = leaving.map(({ id }) => id);
    store.transaction(() => store.records.forget(parent!, previews));
    for (const each of leaving) {
      const { id } = each;
      this.#apps.left.set(id, generation);
      this.#apps.activity.forget(id);
      this.#apps.forget(each);
      const backend = next(each);
      if (backend !== null) each.fleet.movedTo(backend);
      // Not awaited: `close` waits for the fleet operation in which this code runs.
      each.fleet.close('the app has moved to another host').catch(() => {});
    }
  }

  /** Ends the remaining work of an app that has left. Removes its files, except the cache of its code. */
  async #tidyAfter({ id, fleet }: App, hosts: AppHosts): Promise<void> {
    const { paths, buckets, outward, users } = this.#apps.options;
    await fleet.close();
    // Also ends the deploys that were asked for meanwhile.
    await hosts.endDeploys(id);
    await buckets.forget(id);
    await outward.forget(id);
    const { cell } = users(id);
    if (cell !== null) await endProcessesOf(cell);
    hosts.ended(id);
    for (const path of [paths.run(id), paths.data(id)]) await removeTree(path);
  }
}
