// Lookups of apps: by id, slug, host name or TCP port, and by the queues that they consume.
import { isDispatched } from '../../../handlers/contract/apps/slug.ts';
import type { ObservedApp } from '../../../handlers/contract/host/host-calls.ts';
import type { PreviewRow } from '../../../sqlite/host/previews.ts';
import type { AppCluster } from '../../bucket/app-cluster.ts';
import { MissingObject } from '../../bucket/store.ts';
import type { Layout } from '../../disk/data-directory.ts';
import type { Fleet } from '../../fleets/life/fleet.ts';
import { reason } from '../../log.ts';
import { Refusal } from '../../refusal.ts';
import type { App } from '../app.ts';
import { isSecondVersion } from '../preview-app.ts';
import { HostNames } from './host-names.ts';
import { QueueConsumers } from './queue-consumers.ts';

/** Apps of other hosts. */
export interface OtherApps {
  /** Returns the id of the account's app with that slug; null if no app has it. */
  idOf: (owner: string, slug: string) => string | null;
  /**
   * Asks the app's host for the unique keys of the Durable Object classes in its live release, by class name.
   * @throws {Error} when that host does not answer
   */
  classesOf: (appId: string) => Promise<Record<string, string>>;
  /** Returns the ids of an account's apps that consume a queue. */
  consumersOf: (owner: string, queue: string) => string[];
  slugOf: (appId: string) => string | undefined;
  /** Asks the control plane which apps exist now. Never rejects. */
  askNow: () => Promise<void>;
}

/** Read access to the apps of this host. `OpenApps` adds and removes them. */
export abstract class KnownApps {
  /** Apps by id. */
  protected readonly apps = new Map<string, App>();
  protected readonly hostNames: HostNames;
  protected readonly consumers = new QueueConsumers();

  onAdded: () => void = () => {};
  /** Null in a Cellar of one host. */
  others: OtherApps | null = null;
  readonly #paths: Layout;

  constructor(baseDomain: string, paths: Layout) {
    this.hostNames = new HostNames(baseDomain);
    this.#paths = paths;
  }

  /** Returns the fleet (which manages an app's processes) of a host name (lower case, without port). */
  resolve(host: string): Fleet | undefined {
    return this.hostNames.find(host)?.fleet;
  }

  /** Returns the host names of an app; none for an unknown app. */
  hostsOf(id: string): string[] {
    const app = this.apps.get(id);
    return app === undefined ? [] : this.hostNames.of(app.wanted);
  }

  /**
   * Returns the fleet of an app for a request. With `previewHost`, returns the fleet of the app's preview that has this host
   * name.
   * @param headers alternating names and values, which choose one of two versions
   */
  fleetAt(id: string, previewHost: string | null, headers: readonly string[] = []): Fleet | undefined {
    if (previewHost === null) return this.apps.get(id)?.fleetFor(headers);
    const fleet = this.resolve(previewHost);
    return fleet && this.originOf(fleet.site) === id ? fleet : undefined;
  }

  get(id: string): Readonly<App> | undefined {
    return this.apps.get(id);
  }

  /** Returns an app's id, given its id or slug; undefined for an unknown app. */
  find(name: string): string | undefined {
    if (this.apps.has(name)) return name;
    for (const [id, { wanted }] of this.apps) if (wanted.slug === name) return id;
    return undefined;
  }

  /** Returns the app that has a TCP port. */
  ofPort(port: number): Readonly<App> | undefined {
    for (const app of this.apps.values())
      if (app.preview === null && app.wanted.tcp?.includes(port)) return app;
    return undefined;
  }

  /** Returns an app's account, for scheduling that is fair between accounts; the app's id if it has no account. */
  ownerOf(id: string): string {
    return this.apps.get(id)?.wanted.owner ?? id;
  }

  /** Returns the cluster of an app in the bucket; null for one that keeps its data on this machine. */
  clusterOf(id: string): AppCluster | null {
    return this.apps.get(id)?.cluster ?? null;
  }

  /**
   * Calls `read` with the path of an app's repository, once the disk has what the bucket has. Keeps the repository on
   * the disk meanwhile.
   * @throws {Refusal} when the disk has no copy: 503 if the bucket does not answer, 404 if the app was deleted
   * @throws what `read` throws
   */
  async withRepository<T>(id: string, read: (path: string) => Promise<T>): Promise<T> {
    const path = this.#paths.repository(id);
    const stored = this.apps.get(id)?.code?.repository;
    return stored ? stored.reading(() => read(path)) : read(path);
  }

  /**
   * Returns the directory of a release, once its files are on the disk, where they stay for minutes at least. The directory
   * may be missing if the release is no longer kept.
   * @throws {Refusal} 503 when the bucket does not answer and the disk has no copy
   */
  async release(id: string, deployId: string): Promise<string> {
    await this.apps
      .get(id)
      ?.code?.releases.load(deployId)
      .catch((error: unknown) => {
        if (error instanceof MissingObject) return;
        throw new Refusal(
          503,
          'host_unavailable',
          `the release could not be loaded from the bucket: ${reason(error)}`,
        );
      });
    return this.#paths.release(id, deployId);
  }

  /** Returns the id of the app of that slug, at any host, if it has the same owner as the app `id`; otherwise null. */
  siblingOf(id: string, slug: string): string | null {
    const owner = this.apps.get(id)?.wanted.owner;
    // Scripts can be called only through their dispatch namespace.
    if (owner === undefined || isDispatched(slug)) return null;
    const sibling = this.apps.get(this.find(slug) ?? '')?.wanted;
    if (sibling?.slug === slug) return sibling.owner === owner ? sibling.id : null;
    return this.others?.idOf(owner, slug) ?? null;
  }

  /** Returns the ids of other apps of the same owner, at any host, that consume a queue. */
  consumersOf(id: string, queue: string): string[] {
    const owner = this.apps.get(id)?.wanted.owner;
    if (owner === undefined) return [];
    const here = this.consumers
      .of(queue)
      .filter((each) => each !== id && this.apps.get(each)?.wanted.owner === owner);
    const others = this.others?.consumersOf(owner, queue) ?? [];
    return [...here, ...others.filter((each) => !this.apps.has(each))];
  }

  /** Returns the other apps of the same owner at this host, without previews. */
  neighboursOf(id: string): { id: string; slug: string }[] {
    const owner = this.apps.get(id)?.wanted.owner;
    return [...this.apps.values()].flatMap(({ preview, wanted }) =>
      preview === null && wanted.id !== id && wanted.owner === owner
        ? { id: wanted.id, slug: wanted.slug }
        : [],
    );
  }

  /** Returns the slug of an app at any host. */
  slugOf(id: string): string | undefined {
    return this.apps.get(id)?.wanted.slug ?? this.others?.slugOf(id);
  }

  /** Returns which of this host's apps consume which queues, without previews. */
  queues(): { app: string; owner: string; queues: string[] }[] {
    return Array.from(this.consumers.all, ([app, queues]) => ({ app, owner: this.ownerOf(app), queues }));
  }

  /** Returns the previews of an app, oldest first. */
  previews(id: string): PreviewRow[] {
    return [...this.apps.values()].flatMap(({ preview }) => (preview?.parentId === id ? preview : []));
  }

  /** Returns the second versions of all apps, also those that get no requests any more. */
  seconds(): PreviewRow[] {
    return [...this.apps.values()].flatMap(({ preview }) =>
      preview !== null && isSecondVersion(preview) ? preview : [],
    );
  }

  /** Returns the app whose repository, variables and secrets are used: the parent of a preview, else the app itself. */
  originOf(id: string): string {
    return this.apps.get(id)?.preview?.parentId ?? id;
  }

  /** Returns one app as the host sees it; undefined for an unknown app. */
  observe(id: string): ObservedApp | undefined {
    return this.apps.get(id)?.observe();
  }

  /** Returns how many processes of an app serve; 0 for an unknown app. */
  processes(id: string): number {
    return this.apps.get(id)?.fleet.processes ?? 0;
  }

  /** Returns every app as the host sees it, without previews. */
  observeAll(): ObservedApp[] {
    return [...this.apps.values()].filter(({ preview }) => preview === null).map((app) => app.observe());
  }

  /** Number of open requests, upgraded connections, and Workflow steps that keep idle processes running, of all apps. */
  get openStreams(): number {
    return [...this.apps.values()].reduce((sum, { fleet }) => sum + fleet.openStreams, 0);
  }

  /** Returns the private memory of each app's processes, in bytes, as last read; null without a process. */
  memories(): { id: string; slug: string; memory_bytes: number | null }[] {
    return [...this.apps].map(([id, { wanted, fleet }]) => ({
      id,
      slug: wanted.slug,
      memory_bytes: fleet.memoryBytes,
    }));
  }
}
