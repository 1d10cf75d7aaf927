// Maps host names to apps.
import { isDispatched, nameOfScript } from '../../../handlers/contract/apps/slug.ts';
import type { WantedApp } from '../../../handlers/contract/host/host-calls.ts';
import type { App } from '../app.ts';

export class HostNames {
  readonly #baseDomain: string;
  readonly #apps = new Map<string, App>();

  constructor(baseDomain: string) {
    this.#baseDomain = baseDomain;
  }

  /**
   * Returns the host names of an app: the one below the base domain, then its custom domains. A script of a dispatch
   * namespace has one name, which no request can have.
   */
  of({ slug, hostnames }: Pick<WantedApp, 'slug' | 'hostnames'>): string[] {
    if (isDispatched(slug)) return [nameOfScript(slug)];
    return [`${slug}.${this.#baseDomain}`, ...hostnames];
  }

  /** Returns the app of a host name (lower case, without port). */
  find(host: string): App | undefined {
    return this.#apps.get(host);
  }

  /** Routes an app's host names to it. */
  add(app: App): void {
    for (const host of this.of(app.wanted)) {
      const other = this.#apps.get(host);
      // Old slugs may contain two hyphens, which are now reserved for previews. Such an app keeps its address.
      const isTaken = app.preview !== null && other !== undefined && other.preview === null;
      if (!isTaken) this.#apps.set(host, app);
    }
  }

  /** Removes all routes to an app. */
  remove(app: App): void {
    for (const host of this.of(app.wanted)) if (this.#apps.get(host) === app) this.#apps.delete(host);
  }
}
