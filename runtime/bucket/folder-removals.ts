// Removes the bucket folders of apps that were deleted or moved to a disk. The next run retries failed removals.
import type { FolderRemovalQueries } from '../../sqlite/host/folder-removals.ts';
import { log, reason } from '../log.ts';
import { OtherHome } from './records/app-records.ts';

export class FolderRemovals {
  readonly #queries: FolderRemovalQueries;
  readonly #ready: () => Promise<void>;
  readonly #remove: (appId: string) => Promise<void>;
  readonly #recorded: (appId: string) => Promise<void>;
  #round: Promise<void> | null = null;

  /**
   * @param ready resolves when the bucket may be used
   * @param remove removes an app's folder from the bucket. Later changes of that folder wait for the removal
   * @param recorded resolves when the app's record in the bucket has the deletion or the move. Throws {OtherHome} when
   *   another host has the app
   */
  constructor(
    queries: FolderRemovalQueries,
    ready: () => Promise<void>,
    remove: (appId: string) => Promise<void>,
    recorded: (appId: string) => Promise<void> = async () => {},
  ) {
    this.#queries = queries;
    this.#ready = ready;
    this.#remove = remove;
    this.#recorded = recorded;
  }

  /** Tries to remove every folder that is due. Never rejects. Concurrent calls share one run. */
  run(): Promise<void> {
    this.#round ??= this.#run().finally(() => {
      this.#round = null;
    });
    return this.#round;
  }

  async #run(): Promise<void> {
    try {
      for (const appId of this.#queries.due(new Date().toISOString())) await this.#removeOne(appId);
    } catch (error) {
      log('warn', 'the list of deleted apps could not be read', { error: reason(error) });
    }
  }

  async #removeOne(appId: string): Promise<void> {
    try {
      await this.#ready();
      // The app may have moved into the bucket since the list was read.
      const dueAt = this.#queries.dueAt(appId);
      if (dueAt === null || dueAt > new Date().toISOString()) return;
      await this.#recorded(appId);
      await this.#remove(appId);
      this.#queries.removed(appId, dueAt);
    } catch (error) {
      // Another host took over the app or preview while this host was frozen.
      if (error instanceof OtherHome) return this.#queries.delete(appId);
      log('warn', 'the data of a deleted app is still in the bucket; Cellar tries again in a minute', {
        app: appId,
        error: reason(error),
      });
    }
  }
}
