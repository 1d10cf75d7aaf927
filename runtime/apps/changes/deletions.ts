// Deletions of apps, and undeletions.
import type { WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import { removeTree } from '../../disk/remove.ts';
import { KEPT_MS, moveToTrash, takeFromTrash } from '../../disk/trash.ts';
import { log } from '../../log.ts';
import { endProcessesOf } from '../../processes/orphaned-processes.ts';
import { SerialQueues } from '../../queues/serial-queue.ts';
import type { OpenApps } from '../known/open-apps.ts';
import { type Arrivals, gone } from './arrivals.ts';

export class Deletions {
  readonly #apps: OpenApps;
  readonly #arrivals: Arrivals;
  /**
   * Runs the changes of one app one after another: the control plane repeats its request when a deletion takes long.
   */
  readonly #turns = new SerialQueues();

  constructor(apps: OpenApps, arrivals: Arrivals) {
    this.#apps = apps;
    this.#arrivals = arrivals;
  }

  /**
   * Stops an app and moves all its files to the trash. Also works for an unknown app.
   * @param options.isKept false: removes them from the trash, too
   * @throws {StaleGeneration} when a newer state is known
   */
  delete(id: string, generation: number, { isKept } = { isKept: true }): Promise<void> {
    return this.#turns.run(id, () => this.#delete(id, generation, isKept));
  }

  async #delete(id: string, generation: number, isKept: boolean): Promise<void> {
    const { store, paths } = this.#apps.options;
    this.#apps.requireFresh({ id, generation });
    // Takes no record of a preview, for which `isKept` is false. If this host was lost for a while, another host may run the
    // preview now.
    const left =
      this.#apps.app(id) !== undefined || !isKept ? [] : await this.#arrivals.takeLeft(id, generation);
    const app = this.#apps.app(id);
    const now = Date.now();
    store.transaction(() => {
      if (isKept && (app?.preview === null || left.length > 0)) store.records.keep(id, now, left[0]);
      store.apps.delete(id, generation, new Date().toISOString());
      store.secrets.deleteAll(id);
      // Reads `wanted.storage`, not `cluster`: a move changes `cluster` later.
      const inBucket = app?.wanted.storage === 'bucket' ? [id] : left.map(({ wanted }) => wanted.id);
      for (const each of inBucket)
        store.folderRemovals.add(each, new Date(now + (isKept ? KEPT_MS : 0)).toISOString());
    });
    this.#apps.activity.delete(id);
    if (app) {
      this.#apps.forget(app);
      // Not queued, because it must cancel a deploy that is being tried.
      const closed = app.fleet.close('the app was deleted');
      await app.inTurn(() => closed);
      const { cell } = this.#apps.options.users(id);
      // A process that still runs could redirect the removal to other files of the host.
      if (cell !== null) await endProcessesOf(cell);
    }
    this.#apps.options.onDeleted(id);
    await this.#apps.options.buckets.forget(id);
    await this.#apps.options.outward.forget(id);
    // Otherwise a crash of the machine could bring back an app without its files.
    await store.synced();
    // An interrupted deletion continues in the same folder of the trash.
    const thrownAt = store.records.kept(id)?.thrownAt ?? now;
    const belongings = { ...this.#belongings(id), run: paths.run(id) };
    const place = moveToTrash(paths.trash, id, belongings, thrownAt);
    if (isKept) return;
    await removeTree(place);
    // Not awaited, because it also removes folders of other deleted apps.
    void this.#apps.options.bucket?.removals.run();
  }

  /**
   * Brings back a deleted app whose data is on the disk. Does nothing for an app that exists or was not deleted.
   * @returns whether it brought the app back
   * @throws {Refusal} when its data is gone; {StaleGeneration} when a newer state is known
   */
  async undelete(wanted: WantedApp): Promise<boolean> {
    const { id, undeleted } = wanted;
    if (undeleted === undefined || this.#apps.app(id) !== undefined) return false;
    return this.#turns.run(id, async () => {
      this.#apps.requireNewest(wanted);
      if (this.#apps.app(id) !== undefined) return false;
      this.#takeBack(wanted);
      return true;
    });
  }

  /** Moves an app's files back from the trash, and restores its record. @throws {Refusal} when the trash lacks the files */
  #takeBack(wanted: WantedApp): void {
    const { id } = wanted;
    const { store, paths } = this.#apps.options;
    const kept = wanted.storage === 'bucket' ? null : store.records.kept(id);
    if (kept === null || !takeFromTrash(paths.trash, id, this.#belongings(id), kept.thrownAt)) throw gone();
    const record = { ...kept.record, wanted };
    store.transaction(() => store.records.takeOne([record]));
    this.#apps.restore(record, wanted, null);
    log('info', 'an app was undeleted', { app: wanted.slug });
  }

  /** Returns the paths of an app's files by their names in the trash. */
  #belongings(id: string): Record<string, string> {
    const { paths } = this.#apps.options;
    return {
      'repository.git': paths.repository(id),
      data: paths.data(id),
      importing: paths.importing(id),
      buckets: paths.buckets(id),
      releases: paths.releases(id),
    };
  }

  /** Forgets the deleted apps that cannot be undeleted any more. */
  forgetKept(): void {
    this.#apps.options.store.records.forgetKept(Date.now() - KEPT_MS);
  }
}
