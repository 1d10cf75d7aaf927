// Moves the data of deleted Durable Object classes to the trash, once the live release lacks these classes. Tries to take a
// snapshot first. The bucket has no trash: data there is removed, but only after a successful snapshot.
import type { DeployFact } from '../../../handlers/contract/host/host-calls.ts';
import type { KnownApps } from '../../apps/known/known-apps.ts';
import type { Layout } from '../../disk/data-directory.ts';
import { log, reason } from '../../log.ts';
import { type DeletedClass, findDeletedClasses, trashDeletedClasses } from '../../storage/deleted-classes.ts';
import { readRelease } from '../release/release.ts';
import type { DeployLog } from './deploy-log.ts';

interface DeletedClassOptions {
  paths: Layout;
  apps: Pick<KnownApps, 'clusterOf'>;
  /** Takes a snapshot of the app. @returns its key */
  snapshot: (appId: string) => Promise<string>;
}

/** The data that one deploy deletes. */
export class DeletedClassData {
  readonly #options: DeletedClassOptions;
  readonly #deploy: Pick<DeployFact, 'id' | 'app_id'>;
  readonly #log: DeployLog;
  #classes: DeletedClass[] = [];

  constructor(options: DeletedClassOptions, deploy: Pick<DeployFact, 'id' | 'app_id'>, log: DeployLog) {
    this.#options = options;
    this.#deploy = deploy;
    this.#log = log;
  }

  get isEmpty(): boolean {
    return this.#classes.length === 0;
  }

  /** Finds the data to delete. Call it when the deploy's release is live. Never rejects. */
  async find(storage: object): Promise<void> {
    const { paths, apps } = this.#options;
    const { id, app_id } = this.#deploy;
    try {
      const release = await readRelease(paths.release(app_id, id));
      if (release === null) return;
      const cluster = apps.clusterOf(app_id);
      this.#classes = await findDeletedClasses(paths, app_id, { storage, release, cluster });
      const then = cluster ? 'is removed from the bucket' : "lies in Cellar's trash for 7 days";
      for (const { className } of this.#classes)
        this.#log.line(
          `class ${className} is deleted: a snapshot of its objects is taken now, then their data ${then}`,
        );
    } catch (error) {
      const why = reason(error);
      this.#log.line(`the data of deleted classes could not be found; the next deploy tries again: ${why}`);
    }
  }

  /** Snapshots the data, then moves it to the trash or removes it. After an abort, the next deploy does it. Never rejects. */
  async throwAway(signal: AbortSignal): Promise<void> {
    const names = this.#classes.map(({ className }) => className).join(', ');
    try {
      const key = await this.#snapshot(signal);
      signal.throwIfAborted();
      const kept =
        key === null ? "no snapshot could be taken (Cellar's log says why)" : `snapshot ${key} has it`;
      const now = await this.#dispose(key !== null);
      this.#log.line(`data of deleted classes (${names}): ${kept}; the data ${now}`);
    } catch (error) {
      const why = reason(error);
      this.#log.line(
        `data of deleted classes (${names}) could not be removed; the next deploy tries again: ${why}`,
      );
    }
  }

  /** @returns what became of the data, for messages */
  async #dispose(isSnapshotted: boolean): Promise<string> {
    const { paths, apps } = this.#options;
    const { app_id } = this.#deploy;
    const cluster = apps.clusterOf(app_id);
    if (cluster === null) {
      trashDeletedClasses(paths, app_id, this.#classes);
      return "lies in Cellar's trash for 7 days";
    }
    if (!isSnapshotted) return 'stays in the bucket; the next deploy tries again';
    await cluster.removeObjects(this.#classes.map(({ id }) => id));
    return 'is removed from the bucket';
  }

  /**
   * Takes a snapshot of the app.
   * @returns its key; null when it fails, or `signal` aborts meanwhile
   * @throws the signal's reason if it was aborted before
   */
  async #snapshot(signal: AbortSignal): Promise<string | null> {
    signal.throwIfAborted();
    const cut = Promise.withResolvers<null>();
    signal.addEventListener('abort', () => cut.resolve(null), { once: true });
    const { app_id, id } = this.#deploy;
    const taken = this.#options.snapshot(app_id).catch((error: unknown) => {
      log('warn', 'no snapshot could be taken before the data of deleted classes is removed', {
        deploy: id,
        error: reason(error),
      });
      return null;
    });
    return Promise.race([taken, cut.promise]);
  }
}
