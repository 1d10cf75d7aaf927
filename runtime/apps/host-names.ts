// Which app answers at which host name.
import type { WantedApp } from '../../handlers/contract/host/host-calls.ts';
import type { App } from './app.ts';

export class HostNames {
  readonly #baseDomain: string;
  readonly #apps = new Map<string, App>();

  constructor(baseDomain: string) {
    this.#baseDomain = baseDomain;
  }

  /** The host names of an app: the one below the base domain, then its own domains. */
  of({ slug, hostnames }: WantedApp): string[] {
    return [`${slug}.${this.#baseDomain}`, ...hostnames];
  }

  /** The app that answers at a host name (lower case, without port). */
  find(host: string): App | undefined {
    return this.#apps.get(host);
  }

  /** Routes an app's host names to it. */
  add(app: App): void {
    for (const host of this.of(app.wanted)) {
      const other = this.#apps.get(host);
      // An app's slug may have two hyphens, from before these were kept for previews: its address stays its own.
      const isTaken = app.preview !== null && other !== undefined && other.preview === null;
      if (!isTaken) this.#apps.set(host, app);
    }
  }

  /** Routes nothing to an app any more. */
  remove(app: App): void {
    for (const host of this.of(app.wanted)) if (this.#apps.get(host) === app) this.#apps.delete(host);
  }
}
