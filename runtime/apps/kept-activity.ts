// When apps were last used, written down each minute, and how they rested when the host ended.
import type { ActivityRow } from '../../sqlite/host/activity.ts';
import type { HostStore } from '../../sqlite/host/index.ts';

/** How often it is written down. */
const KEEP_MS = 60_000;

/** An app that is used. */
interface Used {
  wanted: { id: string };
  /** With the last minute with a request, in ms since 1970. */
  fleet: { lastRequestAt: number | null };
}

export class KeptActivity {
  readonly #store: HostStore;
  readonly #atBoot: Map<string, ActivityRow>;
  /** The last request of each app as written down. */
  readonly #kept = new Map<string, number>();
  #keptAt = performance.now();

  constructor(store: HostStore) {
    this.#store = store;
    this.#atBoot = store.activity.all();
    for (const [id, { lastRequestAt }] of this.#atBoot)
      if (lastRequestAt !== null) this.#kept.set(id, lastRequestAt);
  }

  /** As it was written down when the host started; undefined for an app that was not. */
  atBoot(id: string): Readonly<ActivityRow> | undefined {
    return this.#atBoot.get(id);
  }

  delete(id: string): void {
    this.#store.activity.delete(id);
    this.#kept.delete(id);
  }

  /** Writes down what has changed, if it is time to. */
  tick(apps: Iterable<Used>): void {
    if (performance.now() - this.#keptAt >= KEEP_MS) this.keep(apps);
  }

  /** Writes down what has changed. */
  keep(apps: Iterable<Used>): void {
    this.#keptAt = performance.now();
    this.#store.transaction(() => {
      for (const { wanted, fleet } of apps) {
        const { lastRequestAt } = fleet;
        if (lastRequestAt === null || lastRequestAt === this.#kept.get(wanted.id)) continue;
        this.#store.activity.setLastRequest(wanted.id, lastRequestAt);
        this.#kept.set(wanted.id, lastRequestAt);
      }
    });
  }
}
