// The open connections, and whose they are: when there is no room, whoever has most gives one up for a newcomer.
import { log, logRarely } from '../log.ts';
import type { Connection } from './connection.ts';
import { cutAddress, visitorOf } from './limits/networks.ts';
import { TOO_MANY_CONNECTIONS } from './refusals.ts';

/** Most connections at once. A tenth more are told so, and the rest are dropped. */
export const CONNECTIONS_MAX = 8_192;
/** Most bytes that all connections keep of what nobody takes yet. */
const KEPT_MAX = 192 * 2 ** 20;
/** Time between two lines about too many connections, in ms. */
const TOLD_EVERY_MS = 60_000;

/** All connections of one visitor, the oldest first. */
type Own = Set<Connection>;

export class Connections implements Iterable<Connection> {
  readonly #keptMax: number;
  readonly #all = new Set<Connection>();
  /** Without those of trusted proxies, which come for many. */
  readonly #visitors = new Map<number | string, Own>();
  /** Visitors with one connection, with two, and so on to those with most. */
  readonly #ranks: Set<Own>[] = [];
  #toldAt = -TOLD_EVERY_MS;
  /** Bytes that all of them keep of what nobody takes yet. */
  #kept = 0;

  /** @param keptMax most bytes that all of them keep of what nobody takes yet */
  constructor(keptMax = KEPT_MAX) {
    this.#keptMax = keptMax;
  }

  get size(): number {
    return this.#all.size;
  }

  [Symbol.iterator](): Iterator<Connection> {
    return this.#all[Symbol.iterator]();
  }

  /** Takes it, which may cost another visitor a connection; or refuses it, for which it may stay a little longer. */
  add(connection: Connection): void {
    const own = this.#ownOf(connection);
    const isFull = this.#all.size >= CONNECTIONS_MAX;
    const fits = !isFull || this.#makeRoom(own?.size ?? 0);
    this.#all.add(connection);
    if (own !== null) {
      own.add(connection);
      this.#rank(own, own.size - 1);
    }
    if (isFull) this.#tell(connection);
    if (fits) return;
    if (this.#all.size > CONNECTIONS_MAX * 1.1) connection.socket.destroy();
    else connection.refuse(TOO_MANY_CONNECTIONS);
  }

  delete(connection: Connection): void {
    if (!this.#all.delete(connection) || connection.trusted) return;
    const visitor = visitorOf(connection.peer);
    const own = this.#visitors.get(visitor)!;
    own.delete(connection);
    this.#rank(own, own.size + 1);
    if (own.size === 0) this.#visitors.delete(visitor);
  }

  /** They keep so many bytes more, or less. When that is too much, the visitors that keep most lose their connections. */
  kept(more: number): void {
    this.#kept += more;
    if (this.#kept <= this.#keptMax) return;
    // A proxy's connections are those of many.
    const owns = Map.groupBy(this.#all, (each) => (each.trusted ? each : visitorOf(each.peer)));
    const greedy = [...owns.values()]
      .map((own) => ({ own, bytes: own.reduce((sum, { keptBytes }) => sum + keptBytes, 0) }))
      .sort((a, b) => b.bytes - a.bytes);
    let left = this.#kept;
    for (const { own, bytes } of greedy) {
      // Fewer than may be: to look for them takes its time.
      if (left <= this.#keptMax / 2) break;
      left -= bytes;
      logRarely('warn', 'more is sent than is taken: the connections of whoever sends most are closed', {
        of: cutAddress(own[0]!.peer),
      });
      for (const { socket } of own) socket.destroy();
    }
  }

  #ownOf({ trusted, peer }: Connection): Own | null {
    if (trusted) return null;
    const visitor = visitorOf(peer);
    const known = this.#visitors.get(visitor);
    if (known !== undefined) return known;
    const own: Own = new Set();
    this.#visitors.set(visitor, own);
    return own;
  }

  /** Moves a visitor that has one connection more or less than `before` to its rank. */
  #rank(own: Own, before: number): void {
    this.#ranks[before - 1]?.delete(own);
    if (own.size > this.#ranks.length) this.#ranks.push(new Set());
    this.#ranks[own.size - 1]?.add(own);
    if (this.#ranks.at(-1)!.size === 0) this.#ranks.pop();
  }

  /** The connections of whoever has most; none when all are of trusted proxies. */
  #most(): Own {
    return this.#ranks.at(-1)?.values().next().value ?? new Set();
  }

  /** Ends a connection of whoever has most, one that owes no answer if there is any. Not for who has as many. */
  #makeRoom(newcomerHas: number): boolean {
    const most = this.#most();
    if (most.size <= newcomerHas + 1) return false;
    let given = most.values().next().value!;
    for (const connection of most) {
      if (connection.exchange !== null || connection.socket.writableLength > 0) continue;
      given = connection;
      break;
    }
    given.socket.destroy();
    this.delete(given);
    return true;
  }

  #tell({ peer }: Connection): void {
    const now = performance.now();
    if (now - this.#toldAt < TOLD_EVERY_MS) return;
    this.#toldAt = now;
    const most = this.#most();
    const [greediest] = most;
    log('warn', 'all connections are taken', {
      connections: this.#all.size,
      most: most.size,
      of: cutAddress(greediest?.peer ?? peer),
    });
  }
}
