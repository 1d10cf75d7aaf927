// The other hosts, as this one reaches them.
import { setTimeout as sleep } from 'node:timers/promises';
import type { Homes } from './homes.ts';
import { Peer } from './peer.ts';

/** Time after a move in which the new home may not yet report the app's queues, in ms. The old home may first end requests. */
const ARRIVAL_MS = 30_000;

export class Peers {
  readonly #homes: Homes;
  readonly #key: string;
  readonly #peers = new Map<string, Peer>();
  #changed = Promise.withResolvers<void>();
  #closed = false;

  /** @param key the secret of the hosts */
  constructor(homes: Homes, key: string) {
    this.#homes = homes;
    this.#key = key;
    void this.#follow();
  }

  /**
   * Resolves when an app's home, a host or its queues change, and when a host is lost or answers again. Never rejects.
   */
  get changed(): Promise<void> {
    return this.#changed.promise;
  }

  /** Hosts that do not answer, and for how long. */
  get unanswered(): { id: string; ms: number }[] {
    return [...this.#peers.values()].flatMap(({ id, unansweredMs }) =>
      unansweredMs === 0 ? [] : { id, ms: unansweredMs },
    );
  }

  /** Returns the ids of an account's apps on other hosts that consume a queue, as far as the hosts have reported. */
  consumersOf(owner: string, queue: string): string[] {
    const apps = [...this.#peers.values()].flatMap(({ id, lost, queues }) =>
      // A lost host keeps its last list, which may have apps that have moved since.
      lost.aborted ? queues.filter(({ app }) => this.#homes.get(app)?.home === id) : queues,
    );
    const consumers = apps.filter((each) => each.owner === owner && each.queues.includes(queue));
    // While an app moves, both hosts may report it.
    return [...new Set(consumers.map(({ app }) => app))];
  }

  /**
   * Returns a promise that settles when `consumersOf` may have changed, and never rejects; null when `consumersOf` is complete.
   * It is complete when this host knows all homes, the account's homes (`homesOf`) have reported, and none of its apps
   * has moved within `ARRIVAL_MS`.
   */
  unreported(owner: string): Promise<void> | null {
    if (!this.#homes.isKnown) return this.#homes.changed;
    const leftMs = this.#homes.movedAt(owner) + ARRIVAL_MS - performance.now();
    if (leftMs > 0) return Promise.race([this.changed, sleep(leftMs, undefined, { ref: false })]);
    const homes = this.#homes.homesOf(owner);
    const isComplete = [...this.#peers.values()].every(
      ({ id, hasReported }) => hasReported || !homes.has(id),
    );
    return isComplete ? null : this.changed;
  }

  /** Returns a host by its id; undefined for this one and for unknown ones. */
  get(id: string): Peer | undefined {
    return this.#peers.get(id);
  }

  /** Resolves `changed`, so that queued requests ask their backends again. Call it when an app or a host has changed. */
  announce(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  close(): void {
    this.#closed = true;
    for (const peer of this.#peers.values()) peer.close();
    this.#peers.clear();
  }

  async #follow(): Promise<void> {
    while (!this.#closed) {
      const { changed } = this.#homes;
      this.#take();
      this.announce();
      await changed;
    }
  }

  #take(): void {
    const known = new Map(this.#homes.others.map((host) => [host.id, host]));
    for (const [id, peer] of this.#peers) {
      if (known.get(id)?.address === peer.address) continue;
      peer.close();
      this.#peers.delete(id);
    }
    for (const [id, host] of known) {
      if (!this.#peers.has(id)) this.#peers.set(id, new Peer(host, this.#key, () => this.announce()));
    }
  }
}
