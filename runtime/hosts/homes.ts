// Which host is the home of each app. The home runs the app; other hosts send its requests and calls to the home.
import { isDispatched, nameOfScript } from '../../handlers/contract/apps/slug.ts';
import type { AppRoute, HostReportAnswer, KnownHost } from '../../handlers/contract/host/hosts.ts';

/** Maximum number of apps with waiting requests that one report names. */
const AWAITED_MAX = 200;

/** A host that is silent for this time, in ms, is lost: it will hardly come back with its data. */
const LOST_MS = 24 * 3_600_000;

/** The hosts of this Cellar and the home of each app, as far as this host knows. */
export class Homes {
  /** The id of this host. */
  readonly self: string;
  readonly #baseDomain: string;
  #hosts: readonly KnownHost[] = [];
  /** Routes by app id, also of apps on this host. */
  readonly #routes = new Map<string, AppRoute>();
  /** Ids of apps, by host name. */
  readonly #names = new Map<string, string>();
  /** Silent homes of apps for which requests wait, by app id. */
  readonly #awaited = new Map<string, string>();
  /** When the newest move of an account's app became known, by account, as `performance.now()`. */
  readonly #movedAt = new Map<string, number>();
  /** Called when a request waits for an app whose home is silent, so that this host soon reports the app. */
  onAwaited: () => void = () => {};
  /** Called with the id of each app that was deleted, wherever its home was. */
  onDeleted: (appId: string) => void = () => {};
  #revision = 0;
  #isKnown = false;
  #changed = Promise.withResolvers<void>();

  constructor(self: string, baseDomain: string) {
    this.self = self;
    this.#baseDomain = baseDomain;
  }

  get others(): readonly KnownHost[] {
    return this.#hosts.filter(({ id }) => id !== this.self);
  }

  /**
   * Returns the ids of the other hosts that may come back with their data. All others are removed, were silent for `LOST_MS`,
   * or are silent and this host has their address now.
   */
  notLost(): string[] {
    const address = this.#hosts.find(({ id }) => id === this.self)?.address;
    const isLost = (host: KnownHost) =>
      host.state === 'silent' &&
      (host.address === address || Date.now() - Date.parse(host.silent_since ?? '') >= LOST_MS);
    return this.others.filter((host) => !isLost(host)).map(({ id }) => id);
  }

  /** The ids of all apps with a route. */
  get appIds(): string[] {
    return [...this.#routes.keys()];
  }

  /** Whether this host does the work that one host does for all: it is the active host with the lowest id. */
  get leads(): boolean {
    const active = this.#hosts.filter(({ state }) => state === 'active').map(({ id }) => id);
    return active.sort()[0] === this.self;
  }

  /** The revision of the newest known route; 0 without any. */
  get revision(): number {
    return this.#revision;
  }

  /** Whether the control plane has sent the hosts and homes. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** Resolves at the next change of a home or of a host. */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Returns the host that runs an app; null when it is this one, or unknown. */
  elsewhere(appId: string): KnownHost | null {
    const home = this.#routes.get(appId)?.home;
    if (home === undefined || home === this.self) return null;
    return this.#hosts.find(({ id }) => id === home) ?? null;
  }

  /** Whether the data of an app is on the disk of a host that was removed. */
  isOnRemovedHost(appId: string): boolean {
    const route = this.#routes.get(appId);
    if (route === undefined || route.storage !== 'local' || route.home === this.self) return false;
    return this.elsewhere(appId) === null;
  }

  /** Returns the route of a host name (lower case, without port); undefined for an unknown one. */
  resolve(host: string): AppRoute | undefined {
    return this.#routes.get(this.#names.get(host) ?? '');
  }

  get(appId: string): AppRoute | undefined {
    return this.#routes.get(appId);
  }

  /**
   * Returns the ids of the hosts that run an account's apps. Leaves out a silent host for its local apps, which nothing
   * reaches until it is back. Its other apps move soon.
   */
  homesOf(owner: string): Set<string> {
    const silent = new Set(this.#hosts.filter(({ state }) => state === 'silent').map(({ id }) => id));
    const homes = new Set<string>();
    for (const route of this.#routes.values())
      if (route.owner === owner && (route.storage === 'bucket' || !silent.has(route.home)))
        homes.add(route.home);
    return homes;
  }

  /** Returns when the newest move of an account's app became known, as `performance.now()`; minus infinity without one. */
  movedAt(owner: string): number {
    return this.#movedAt.get(owner) ?? Number.NEGATIVE_INFINITY;
  }

  /** Returns the route of the app that has a TCP port. */
  ofPort(port: number): AppRoute | undefined {
    for (const route of this.#routes.values()) if (route.tcp?.includes(port)) return route;
    return undefined;
  }

  /**
   * Returns the apps whose data is on the disk of another host. `host`: the name of that host, or the id of a removed
   * one.
   */
  localElsewhere(): { app: string; slug: string; host: string }[] {
    const names = new Map(this.#hosts.map(({ id, name }) => [id, name]));
    return [...this.#routes.values()]
      .filter(({ storage, home }) => storage === 'local' && home !== this.self)
      .map(({ id, slug, home }) => ({ app: id, slug, host: names.get(home) ?? home }));
  }

  /** Applies an answer of the control plane. */
  take({ hosts, revision, whole, routes, deleted }: HostReportAnswer): void {
    this.#isKnown = true;
    this.#hosts = hosts;
    const routed = new Set(routes.map(({ id }) => id));
    const missing = whole ? this.appIds.filter((id) => !routed.has(id)) : [];
    for (const id of [...missing, ...deleted]) this.#remove(id);
    for (const route of routes) this.#put(route);
    // A database that was restored from a backup has an older revision. Apps that it lacks were not deleted.
    const gone = revision < this.#revision ? deleted : [...missing, ...deleted];
    this.#revision = revision;
    // An app that was undeleted since has a route.
    for (const id of gone) if (!this.#routes.has(id)) this.onDeleted(id);
    this.#announce();
  }

  /**
   * Asks the control plane to move an app before others: its home is silent, and a request waits. Call it again
   * after each answer of the control plane.
   */
  awaits(appId: string, home: string): void {
    if (this.#awaited.size < AWAITED_MAX) this.#awaited.set(appId, home);
    this.onAwaited();
  }

  /** Returns the apps for which requests have waited since the previous call, with their silent homes. */
  takeAwaited(): { app: string; home: string }[] {
    const awaited = [...this.#awaited].map(([app, home]) => ({ app, home }));
    this.#awaited.clear();
    return awaited;
  }

  /** Records that another host is the home of an app from now on. */
  moved(appId: string, home: string): void {
    const route = this.#routes.get(appId);
    // The transition that gave it the new home has raised the generation.
    if (route !== undefined) this.#put({ ...route, home, generation: route.generation + 1 });
    this.#announce();
  }

  #put(route: AppRoute): void {
    const known = this.#routes.get(route.id);
    if (known !== undefined && known.home !== route.home) this.#movedAt.set(route.owner, performance.now());
    this.#remove(route.id);
    this.#routes.set(route.id, route);
    for (const name of this.#namesOf(route)) this.#names.set(name, route.id);
  }

  #remove(appId: string): void {
    const route = this.#routes.get(appId);
    if (route === undefined) return;
    for (const name of this.#namesOf(route)) if (this.#names.get(name) === appId) this.#names.delete(name);
    this.#routes.delete(appId);
  }

  #namesOf({ slug, hostnames }: AppRoute): string[] {
    return isDispatched(slug) ? [nameOfScript(slug)] : [`${slug}.${this.#baseDomain}`, ...hostnames];
  }

  #announce(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }
}
