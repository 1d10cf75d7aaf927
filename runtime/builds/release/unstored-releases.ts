// Stores releases that the bucket lacks: they are from before the app was in the bucket, or from a snapshot. Without this,
// another machine could not run them.
import type { HostStore } from '../../../sqlite/host/index.ts';
import type { Apps } from '../../apps/apps.ts';

export interface UnstoredReleasesOptions {
  store: Pick<HostStore, 'deploys'>;
  apps: Pick<Apps, 'memories' | 'get'>;
  /** Whether the disk has no space for an archive. */
  paused: () => boolean;
}

export class UnstoredReleases {
  readonly #options: UnstoredReleasesOptions;
  readonly #stopping = new AbortController();
  #round: Promise<void> | null = null;

  constructor(options: UnstoredReleasesOptions) {
    this.#options = options;
  }

  /**
   * Stores the live release of each app in the bucket and its releases for rollbacks, one at a time. Concurrent calls share
   * one run. Never rejects because of the bucket: the next run tries again.
   */
  run(): Promise<void> {
    this.#round ??= this.#run().finally(() => {
      this.#round = null;
    });
    return this.#round;
  }

  /** Ends a `run` in progress. */
  stop(): void {
    this.#stopping.abort(new Error('the host is stopping'));
  }

  async #run(): Promise<void> {
    const { store, apps, paused } = this.#options;
    const { signal } = this.#stopping;
    for (const { id } of apps.memories()) {
      const app = apps.get(id);
      if (app?.code == null || signal.aborted) continue;
      const kept = store.deploys.released(id).map((deploy) => deploy.id);
      for (const deployId of new Set([app.liveDeployId ?? [], kept].flat())) {
        if (signal.aborted || paused()) return;
        await app.code.releases.storeIfMissing(deployId, signal);
      }
    }
  }
}
