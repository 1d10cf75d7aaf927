// The other hosts and their apps, as the parts of this host use them.
import type { AppRoute } from '../../handlers/contract/host/hosts.ts';
import type { Hopping } from '../edge/http/head/hosts-headers.ts';
import type { Admission, Backend, Refused } from '../edge/upstream/backend.ts';
import type { Homes } from './homes.ts';
import { hostsKey } from './hosts-key.ts';
import { Peers } from './peers.ts';
import { type Elsewhere, RemoteBackend } from './remote-backend.ts';

/** With fewer backends than this, those of deleted apps stay: the search for them would cost more than it saves. */
const TIDY_MIN = 100;

export interface HostsOptions {
  homes: Homes;
  baseDomain: string;
  /** 64 hexadecimal characters. */
  clusterKey: string;
  /** Returns an app of this host; with `previewHost`, the app's preview of that host name. */
  here: (appId: string, previewHost: string | null) => Backend | undefined;
}

export class Hosts implements Elsewhere {
  readonly homes: Homes;
  readonly peers: Peers;
  /** The secret by which the hosts authenticate each other. */
  readonly key: string;
  readonly here: HostsOptions['here'];
  /** Asks the control plane for routes. Never rejects. */
  askNow: () => Promise<void> = async () => {};
  readonly #baseDomain: string;
  /** Backends by app id. */
  readonly #apps = new Map<string, RemoteBackend>();
  /**
   * Number of backends at which the backends of deleted apps are removed. It grows with the number of apps, because the
   * removal checks each backend.
   */
  #tidyAt = TIDY_MIN;

  constructor({ homes, baseDomain, clusterKey, here }: HostsOptions) {
    this.homes = homes;
    this.key = hostsKey(clusterKey);
    this.peers = new Peers(homes, this.key);
    this.here = here;
    this.#baseDomain = baseDomain;
  }

  /** Returns the app of a host name (lower case, without port), at any host, and the backend of its requests. */
  resolve(host: string): { route: AppRoute; backend: Backend } | null {
    const route = this.homes.resolve(host);
    if (route !== undefined) return { route, backend: this.app(route.id) };
    const label = host.split('.', 1)[0]!;
    const at = label.indexOf('--');
    if (at === -1 || host !== `${label}.${this.#baseDomain}`) return null;
    const parent = this.homes.resolve(host.slice(at + 2));
    // An app and its previews are on the same host. If this host had the app, it would know the preview.
    if (parent === undefined || this.here(parent.id, null) !== undefined) return null;
    return { route: parent, backend: this.#backend(parent.id, 'preview', host) };
  }

  /** Returns the backend of an app that another host runs, or will run. */
  app(appId: string): Backend {
    const known = this.#apps.get(appId);
    if (known !== undefined) return known;
    if (this.#apps.size >= this.#tidyAt) this.#tidy();
    const backend = this.#backend(appId, 'app');
    this.#apps.set(appId, backend);
    return backend;
  }

  /** Returns the backend of calls by another app to an app that another host runs. */
  called(appId: string): Backend {
    return this.#backend(appId, 'call');
  }

  /** Returns the id of an account's app of that slug; null when there is none. */
  idOf(owner: string, slug: string): string | null {
    const route = this.homes.resolve(`${slug}.${this.#baseDomain}`);
    return route?.slug === slug && route.owner === owner ? route.id : null;
  }

  /**
   * Asks the host that runs an app for the unique keys of the app's Durable Object classes, by class name.
   * @throws {Error} when that host is unknown or does not answer
   */
  async classesOf(appId: string): Promise<Record<string, string>> {
    const home = this.homes.get(appId)?.home;
    const peer = home === undefined ? undefined : this.peers.get(home);
    if (peer === undefined) throw new Error('its host is unknown');
    return peer.classesOf(appId);
  }

  /** Returns the ids of an account's apps on other hosts that consume a queue, as far as the hosts have reported. */
  consumersOf(owner: string, queue: string): string[] {
    return this.peers.consumersOf(owner, queue);
  }

  slugOf(appId: string): string | undefined {
    return this.homes.get(appId)?.slug;
  }

  /** Returns the backend that wakes an app at its home. */
  waking(appId: string): Backend {
    return this.#backend(appId, 'wake');
  }

  /**
   * Returns the backend of a host name that no known app has. It asks the control plane once, and waits for the answer.
   * @param refusal of a name that stays unknown
   * @param to returns the backend of a route; default: the backend of visitors' requests
   */
  unknown(host: string, refusal: Refused, to?: (route: AppRoute) => Backend): Backend {
    let hasAsked = false;
    return {
      site: 'fallback',
      admit: (): Admission => {
        const found = this.resolve(host);
        if (found !== null) return (to?.(found.route) ?? found.backend).admit();
        if (!this.homes.isKnown) return { kind: 'hold', ready: this.homes.changed };
        if (hasAsked) return refusal;
        hasAsked = true;
        return { kind: 'hold', ready: this.askNow() };
      },
    };
  }

  /** Destroys all connections to other hosts. */
  close(): void {
    this.peers.close();
  }

  #tidy(): void {
    for (const id of this.#apps.keys()) if (this.homes.get(id) === undefined) this.#apps.delete(id);
    this.#tidyAt = Math.max(TIDY_MIN, 2 * this.#apps.size);
  }

  #backend(appId: string, to: Hopping, previewHost: string | null = null): RemoteBackend {
    return new RemoteBackend(this, appId, to, () => this.here(appId, previewHost), 0);
  }
}
