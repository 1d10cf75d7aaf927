// What keeps builds and apps away from this machine, as far as it lets the host: put up at the start, taken down at the
// end. What is missing, the log says once.
import { log, reason } from '../log.ts';
import { type Endpoint, type Firewall, openFirewall } from './firewall.ts';
import type { AppUsers } from './users.ts';

export class Walls {
  readonly #name: string;
  #firewall: Firewall | null = null;
  /** Resolves when builds reach their registry. */
  #registries: Promise<void> = Promise.resolve();

  /** @param name no other Cellar on this machine may have the same */
  constructor(name: string) {
    this.#name = name;
  }

  /**
   * Puts the walls up. Await it before an app starts.
   * @param users of the apps that there are
   * @param registries what builds need of private networks; it may take its time
   */
  async open(users: AppUsers[], registries: () => Promise<Endpoint[]>): Promise<void> {
    const without = users.some(({ build }) => build === null);
    const firewall = without ? 'apps have no users of their own' : await openFirewall(this.#name, users);
    if (typeof firewall === 'string') {
      const what = "builds reach this machine's own services and its networks";
      return log('warn', `${what}: deploy only code you trust`, { why: firewall });
    }
    this.#firewall = firewall;
    this.#registries = registries()
      .then((endpoints) => firewall.letBuildsReach(endpoints))
      .catch((error: unknown) =>
        log('warn', 'builds may not reach a registry or proxy on a private network', {
          error: reason(error),
        }),
      );
  }

  /** Has them hold for an app's users. Await it before anything runs as one of them. @throws {Error} when that fails */
  async cover(users: AppUsers): Promise<void> {
    await Promise.all([this.#registries, this.#firewall?.cover(users)]);
  }

  /** Takes them down. Nothing of an app's may run any more. Never rejects. */
  async close(): Promise<void> {
    await this.#registries;
    await this.#firewall?.close();
  }
}
