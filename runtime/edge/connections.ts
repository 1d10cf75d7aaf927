// The open connections, and whose they are: when there is no room, whoever has most gives one up for a newcomer.
import { log, logRarely } from '../log.ts';
import type { Connection } from './connection.ts';
import { cutAddress, visitorOf } from './limits/networks.ts';
import { TOO_MANY_CONNECTIONS } from './refusals.ts';
import { Queue, type Queued } from './upstream/queue.ts';

/** Most connections at once. A tenth more are told so, and the rest are dropped. */
export const CONNECTIONS_MAX = 8_192;
/** Most bytes that all connections keep of what nobody takes yet. */
const KEPT_MAX = 192 * 2 ** 20;
/** Time between two lines about too many connections, in ms. */
const TOLD_EVERY_MS = 60_000;

/** The connections of one visitor, the oldest first. */
class Visitor extends Queue<Connection> implements Queued<Visitor> {
  queue: object | null = null;
  before: Visitor | null = null;
  after: Visitor | null = null;
}

export class Connections implements Iterable<Connection> {
  readonly #keptMax: number;
  #size = 0;
  /** Those of trusted proxies, which come for many. */
  readonly #trusted = new Queue<Connection>();
  readonly #visitors = new Map<number | string, Visitor>();
  /** Visitors with one connection, with two, and so on to those with most. */
  readonly #ranks: Queue<Visitor>[] = [];
  #toldAt = -TOLD_EVERY_MS;
  /** Bytes that all of them keep of what nobody takes yet. */
  #kept = 0;

  /** @param keptMax most bytes that all of them keep of what nobody takes yet */
  constructor(keptMax = KEPT_MAX) {
    this.#keptMax = keptMax;
  }

  get size(): number {
    return this.#size;
  }

  *[Symbol.iterator](): Iterator<Connection> {
    yield* this.#trusted;
    for (const visitor of this.#visitors.values()) yield* visitor;
  }

  /** Takes it, which may cost another visitor a connection; or refuses it, for which it may stay a little longer. */
  add(connection: Connection): void {
    const visitor = this.#visitorOf(connection);
    const isFull = this.#size >= CONNECTIONS_MAX;
    const fits = !isFull || this.#makeRoom(visitor?.size ?? 0);
    this.#size++;
    if (visitor === null) this.#trusted.add(connection);
    else {
      visitor.add(connection);
      this.#rank(visitor, visitor.size - 1);
    }
    if (isFull) this.#tell(connection);
    if (fits) return;
    if (this.#size > CONNECTIONS_MAX * 1.1) connection.socket.destroy();
    else connection.refuse(TOO_MANY_CONNECTIONS);
  }

  /** Forgets it, if it was not forgotten before. */
  delete(connection: Connection): void {
    if (connection.queue === null) return;
    this.#size--;
    if (this.#trusted.delete(connection)) return;
    const key = visitorOf(connection.peer);
    const visitor = this.#visitors.get(key)!;
    visitor.delete(connection);
    this.#rank(visitor, visitor.size + 1);
    if (visitor.size === 0) this.#visitors.delete(key);
  }

  /** They keep so many bytes more, or less. When that is too much, the visitors that keep most lose their connections. */
  kept(more: number): void {
    this.#kept += more;
    if (this.#kept <= this.#keptMax) return;
    const visitors = Array.from(this.#visitors.values(), (visitor) => [...visitor]);
    // A proxy's connections are those of many.
    const proxies = Array.from(this.#trusted, (connection) => [connection]);
    const greedy = [...visitors, ...proxies]
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

  #visitorOf({ trusted, peer }: Connection): Visitor | null {
    if (trusted) return null;
    const key = visitorOf(peer);
    const known = this.#visitors.get(key);
    if (known !== undefined) return known;
    const visitor = new Visitor();
    this.#visitors.set(key, visitor);
    return visitor;
  }

  /** Moves a visitor that has one connection more or less than `before` to its rank. */
  #rank(visitor: Visitor, before: number): void {
    this.#ranks[before - 1]?.delete(visitor);
    if (visitor.size > this.#ranks.length) this.#ranks.push(new Queue());
    this.#ranks[visitor.size - 1]?.add(visitor);
    if (this.#ranks.at(-1)!.size === 0) this.#ranks.pop();
  }

  /** Whoever has most connections; null when all are of trusted proxies. */
  get #greediest(): Visitor | null {
    return this.#ranks.at(-1)?.first ?? null;
  }

  /** Ends a connection of whoever has most, one that owes no answer if there is any. Not for who has as many. */
  #makeRoom(newcomerHas: number): boolean {
    const greediest = this.#greediest;
    if (greediest === null || greediest.size <= newcomerHas + 1) return false;
    let given = greediest.first!;
    for (const connection of greediest) {
      if (connection.exchange !== null || connection.socket.waiting > 0) continue;
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
    const greediest = this.#greediest;
    log('warn', 'all connections are taken', {
      connections: this.#size,
      most: greediest?.size ?? 0,
      of: cutAddress(greediest?.first?.peer ?? peer),
    });
  }
}
