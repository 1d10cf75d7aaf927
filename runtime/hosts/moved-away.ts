// Hands over apps whose home is another host now. They are still here because this host was cut off or frozen.
// Acts on the routes that the control plane sends, without waiting for the control plane's next reconcile.
import { setTimeout as sleep } from 'node:timers/promises';
import type { AppRoute } from '../../handlers/contract/host/hosts.ts';
import type { Apps } from '../apps/apps.ts';
import { log, reason } from '../log.ts';
import type { Homes } from './homes.ts';

/** Maximum number of apps that are handed over concurrently. */
const CONCURRENCY = 4;
/** How long `settle` waits for the apps to leave, in ms. Then the host runs its own apps again. */
const SETTLE_MS = 60_000;

export class MovedAway {
  readonly #homes: Homes;
  readonly #apps: Pick<Apps, 'get' | 'observeAll' | 'departures'>;
  /**
   * Apps whose new home came with the newest answer. The control plane is probably handing them over at this moment, so they
   * may stay until the next answer.
   */
  #doubtful: string[] = [];

  constructor(homes: Homes, apps: Pick<Apps, 'get' | 'observeAll' | 'departures'>) {
    this.#homes = homes;
    this.#apps = apps;
  }

  /**
   * Hands over the apps whose new home came with the answer before this one, and that are still here. Call it with the
   * routes of each answer. Never rejects.
   */
  async look(routes: readonly AppRoute[]): Promise<void> {
    const late = this.#doubtful;
    this.#doubtful = routes.flatMap(({ id }) => (this.#newHome(id) === null ? [] : [id]));
    await this.#handOverAll(late);
  }

  /**
   * Hands over all apps that have another home. Resolves when each has left or failed to, or after `SETTLE_MS`. An app that
   * is still here leaves later, or with the next reconcile.
   */
  async settle(): Promise<void> {
    const all = this.#handOverAll(this.#apps.observeAll().map(({ id }) => id));
    await Promise.race([all, sleep(SETTLE_MS, undefined, { ref: false })]);
  }

  async #handOverAll(ids: string[]): Promise<void> {
    const next = async () => {
      for (let id = ids.pop(); id !== undefined; id = ids.pop()) await this.#handOver(id);
    };
    await Promise.all(Array.from({ length: CONCURRENCY }, next));
  }

  async #handOver(id: string): Promise<void> {
    const route = this.#newHome(id);
    if (route === null) return;
    await this.#apps.departures.handOver(id, route.home, route.generation).catch((error: unknown) =>
      log('warn', 'an app that moved to another host could not be removed from this host', {
        app: route.slug,
        error: reason(error),
      }),
    );
  }

  /** Returns the route of an app that has to leave; null for one that may stay, or leaves already. */
  #newHome(id: string): AppRoute | null {
    const app = this.#apps.get(id);
    const route = this.#homes.get(id);
    if (app === undefined || app.cluster === null || route === undefined) return null;
    const isNewer = route.home !== this.#homes.self && route.generation > app.wanted.generation;
    return isNewer && app.changes.isOpen ? route : null;
  }
}
