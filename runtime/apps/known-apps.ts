// The apps of this host as others look them up: by id, slug or host name, and by the queues that they consume.
import type { ListedApp } from '../../handlers/contract/host/host-calls.ts';
import type { PreviewRow } from '../../sqlite/host/previews.ts';
import type { Fleet } from '../fleets/life/fleet.ts';
import type { App } from './app.ts';
import { HostNames } from './host-names.ts';
import { QueueConsumers } from './queue-consumers.ts';

/** What can be asked of the apps that are here. `Apps` changes which they are. */
export abstract class KnownApps {
  /** By id. */
  protected readonly apps = new Map<string, App>();
  protected readonly hostNames: HostNames;
  protected readonly consumers = new QueueConsumers();

  constructor(baseDomain: string) {
    this.hostNames = new HostNames(baseDomain);
  }

  /** The fleet that answers at a host name (lower case, without port). */
  resolve(host: string): Fleet | undefined {
    return this.hostNames.find(host)?.fleet;
  }

  /** The host names that an app answers at; none for an unknown app. */
  hostsOf(id: string): string[] {
    const app = this.apps.get(id);
    return app === undefined ? [] : this.hostNames.of(app.wanted);
  }

  get(id: string): Readonly<App> | undefined {
    return this.apps.get(id);
  }

  /** The id of an app that is here, by its id or slug. */
  find(name: string): string | undefined {
    if (this.apps.has(name)) return name;
    for (const [id, { wanted }] of this.apps) if (wanted.slug === name) return id;
    return undefined;
  }

  /** Returns the account of an app, whose apps take turns with those of other accounts. An app without one counts as one. */
  ownerOf(id: string): string {
    return this.apps.get(id)?.wanted.owner ?? id;
  }

  /** Whether an app of that slug has the same owner as the app `id`. */
  hasSibling(id: string, slug: string): boolean {
    const owner = this.apps.get(id)?.wanted.owner;
    const sibling = this.apps.get(this.find(slug) ?? '')?.wanted;
    return owner !== undefined && sibling?.slug === slug && sibling.owner === owner;
  }

  /** Ids of the other apps of the owner of the app `id` that consume a queue. */
  consumersOf(id: string, queue: string): string[] {
    const owner = this.apps.get(id)?.wanted.owner;
    if (owner === undefined) return [];
    return this.consumers
      .of(queue)
      .filter((each) => each !== id && this.apps.get(each)?.wanted.owner === owner);
  }

  /** The previews of an app, the oldest first. */
  previews(id: string): PreviewRow[] {
    return [...this.apps.values()].flatMap(({ preview }) => (preview?.parentId === id ? preview : []));
  }

  /** The app whose repository, variables and secrets an app has: a preview has its parent's, any other app its own. */
  originOf(id: string): string {
    return this.apps.get(id)?.preview?.parentId ?? id;
  }

  /** One app as the host sees it; undefined for an unknown app. */
  observe(id: string): ListedApp | undefined {
    return this.apps.get(id)?.list();
  }

  /** Every app as the host sees it, without previews. */
  observeAll(): ListedApp[] {
    return [...this.apps.values()].filter(({ preview }) => preview === null).map((app) => app.list());
  }

  /** Memory that each app's process has for itself, in bytes, as last read; null for an app without a process. */
  memories(): { id: string; slug: string; memory_bytes: number | null }[] {
    return [...this.apps].map(([id, { wanted, fleet }]) => ({
      id,
      slug: wanted.slug,
      memory_bytes: fleet.memoryBytes,
    }));
  }
}
