// Every app on this host: what is wanted of it, its fleet, and the hosts it answers at.
import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { ObservedApp, WantedApp } from '../handlers/host-types.ts';
import type { HostStore } from '../sqlite/host/index.ts';
import type { Layout } from './data-directory.ts';
import { Fleet, type ReleaseRef } from './fleets/fleet.ts';
import { createRepository } from './git/repository.ts';
import { log, reason } from './log.ts';

/** Starts of fleets at boot that run side by side. */
const BOOT_CONCURRENCY = 4;

/** A wanted state older than one that the host has already seen. */
export class StaleGeneration extends Error {}

interface App {
  wanted: WantedApp;
  fleet: Fleet;
  liveDeployId: string | null;
  deployedAt: string | null;
  /** Serializes what is done to the app: each wanted state after the one before. */
  work: Promise<unknown>;
}

/** What `Apps` needs of the rest of the host. */
export interface AppsOptions {
  store: HostStore;
  paths: Layout;
  workerd: string;
  baseDomain: string;
  /** Called after a transaction that added facts to the outbox. */
  onFacts: () => void;
}

/** The apps of this host. */
export class Apps {
  readonly #options: AppsOptions;
  readonly #apps = new Map<string, App>();
  readonly #byHost = new Map<string, App>();

  constructor(options: AppsOptions) {
    this.#options = options;
    for (const row of options.store.apps.all()) {
      const app = this.#open(row.wanted);
      app.liveDeployId = row.liveDeployId;
      app.deployedAt = row.deployedAt;
    }
  }

  /** Starts every app that should be running, as it was before the host ended. Resolves when all were tried. */
  async resume(): Promise<void> {
    const waiting = [...this.#apps.values()];
    const worker = async () => {
      for (let app = waiting.shift(); app; app = waiting.shift())
        await this.#queue(app, () => this.#reach(app));
    };
    await Promise.all(Array.from({ length: BOOT_CONCURRENCY }, worker));
  }

  /** The fleet that answers at a host name (lower case, without port). */
  resolve(host: string): Fleet | undefined {
    return this.#byHost.get(host)?.fleet;
  }

  get(id: string): Readonly<App> | undefined {
    return this.#apps.get(id);
  }

  /**
   * Takes over the whole wanted state of an app and brings it about. The same one again changes nothing.
   * @returns what was reached; an app that could not start says so in `last_error`
   * @throws {StaleGeneration} when a newer state is known, or the app was deleted
   */
  async apply(wanted: WantedApp): Promise<ObservedApp> {
    const { store, paths } = this.#options;
    if (wanted.generation < store.apps.generation(wanted.id) || store.apps.isDeleted(wanted.id)) {
      throw new StaleGeneration(
        `generation ${wanted.generation} of app ${wanted.id} is older than what this host knows`,
      );
    }
    await createRepository(paths.repository(wanted.id));
    store.apps.want(wanted);
    const app = this.#open(wanted);
    await this.#queue(app, () => this.#reach(app));
    return observe(app);
  }

  /** Stops an app and moves all it has to the trash. Also for an app that was never seen. */
  async delete(id: string, generation: number): Promise<void> {
    const { store, paths } = this.#options;
    if (generation < store.apps.generation(id)) {
      throw new StaleGeneration(`generation ${generation} of app ${id} is older than what this host knows`);
    }
    const app = this.#apps.get(id);
    store.apps.delete(id, generation, new Date().toISOString());
    if (app) {
      this.#unroute(app);
      this.#apps.delete(id);
      await this.#queue(app, () => app.fleet.close());
    }
    const trash = join(paths.trash, `${id}-${Date.now()}`);
    mkdirSync(trash, { recursive: true, mode: 0o700 });
    const belongings = {
      'repository.git': paths.repository(id),
      data: paths.data(id),
      releases: paths.releases(id),
    };
    for (const [name, path] of Object.entries(belongings)) moveIfThere(path, join(trash, name));
    for (const path of [paths.run(id), paths.cache(id)]) rmSync(path, { recursive: true, force: true });
  }

  /** Every app as the host sees it. */
  observeAll(): ObservedApp[] {
    return [...this.#apps.values()].map(observe);
  }

  /**
   * Makes a release the live one. For an app that is wanted stopped it starts nothing.
   * @param commit writes the pointer, in one transaction with what belongs to it; it gets the app as observed then
   * @throws {Error} with workerd's own reason when the release does not start; the one before serves on
   */
  async release(
    id: string,
    deployId: string,
    steps: { commit: (at: string, observed: ObservedApp) => void; log: (line: string) => void },
  ): Promise<void> {
    const app = this.#apps.get(id);
    if (!app) throw new Error('the app was deleted');
    await this.#queue(app, async () => {
      const commit = () => {
        const at = new Date().toISOString();
        steps.commit(at, { ...observe(app), live_deploy_id: deployId, deployed_at: at });
        app.liveDeployId = deployId;
        app.deployedAt = at;
      };
      const next = this.#release(id, deployId);
      if (app.wanted.desired_state === 'running') return app.fleet.swap(next, { commit, log: steps.log });
      await app.fleet.adopt(next, { commit, log: steps.log });
      steps.log('the app is stopped: this release starts when the app does');
    });
  }

  /** Ends every fleet: drain, then stop. */
  async close(): Promise<void> {
    await Promise.all([...this.#apps.values()].map((app) => app.fleet.close()));
  }

  #open(wanted: WantedApp): App {
    let app = this.#apps.get(wanted.id);
    if (app) this.#unroute(app);
    else {
      app = {
        wanted,
        fleet: this.#fleet(wanted),
        liveDeployId: null,
        deployedAt: null,
        work: Promise.resolve(),
      };
      this.#apps.set(wanted.id, app);
    }
    app.wanted = wanted;
    for (const host of this.#hosts(wanted)) this.#byHost.set(host, app);
    return app;
  }

  #fleet(wanted: WantedApp): Fleet {
    const { paths, workerd } = this.#options;
    const fleet: Fleet = new Fleet({
      appId: wanted.id,
      directories: { run: paths.run(wanted.id), data: paths.data(wanted.id) },
      workerd,
      onLine: (line) => log('info', `app: ${line}`, { app: this.#apps.get(wanted.id)?.wanted.slug }),
      onState: () => this.#tell(wanted.id),
    });
    return fleet;
  }

  #tell(id: string): void {
    const app = this.#apps.get(id);
    if (!app) return;
    this.#options.store.outbox.add({ type: 'app', app: observe(app) });
    this.#options.onFacts();
  }

  #hosts(wanted: WantedApp): string[] {
    return [`${wanted.slug}.${this.#options.baseDomain}`, ...wanted.hostnames];
  }

  #unroute(app: App): void {
    for (const host of this.#hosts(app.wanted)) if (this.#byHost.get(host) === app) this.#byHost.delete(host);
  }

  #queue<T>(app: App, work: () => Promise<T>): Promise<T> {
    const result = app.work.then(work, work);
    app.work = result.catch(() => {});
    return result;
  }

  async #reach({ wanted, fleet, liveDeployId }: App): Promise<void> {
    const live = liveDeployId === null ? null : this.#release(wanted.id, liveDeployId);
    if (wanted.desired_state === 'stopped' || wanted.asleep) return fleet.stop(live ?? undefined);
    if (live === null) return;
    await fleet.start(live).catch((error: unknown) => {
      log('warn', 'app does not start', { app: wanted.slug, deploy: live.deployId, error: reason(error) });
    });
  }

  #release(id: string, deployId: string): ReleaseRef {
    return { deployId, directory: this.#options.paths.release(id, deployId) };
  }
}

function observe(app: App): ObservedApp {
  return {
    id: app.wanted.id,
    generation: app.wanted.generation,
    process_state: app.fleet.state,
    live_deploy_id: app.liveDeployId,
    deployed_at: app.deployedAt,
    last_error: app.fleet.lastError,
  };
}

function moveIfThere(from: string, to: string): void {
  try {
    renameSync(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}
