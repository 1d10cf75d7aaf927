// The open connections, grouped by visitor: an IPv4 address or an IPv6 /64. At the limit, a new connection replaces one of
// the visitor with the most connections.
import { log, logRarely } from '../log.ts';
import type { Connection } from './connection.ts';
import { cutAddress, visitorOf } from './limits/networks.ts';
import { TOO_MANY_CONNECTIONS } from './refusals.ts';
import { Queue, type Queued } from './upstream/queue.ts';

/** Maximum number of open connections. Up to 10 % more may be open to get a refusal; further ones are dropped. */
export const CONNECTIONS_MAX = 8_192;
/** Maximum bytes that all connections together buffer: unread ones, and unsent ones of blocked responses. */
const KEPT_MAX = 192 * 2 ** 20;
/** Time between two log lines about too many connections, in ms. */
const LOG_EVERY_MS = 60_000;

/** The connections of one visitor, oldest first. */
class Visitor extends Queue<Connection> implements Queued<Visitor> {
  queue: object | null = null;
  before: Visitor | null = null;
  after: Visitor | null = null;
}

export class Connections implements Iterable<Connection> {
  readonly #keptMax: number;
  #size = 0;
  /** Connections of trusted proxies, and those of unix sockets. A proxy's connection carries many clients. */
  readonly #trusted = new Queue<Connection>();
  readonly #visitors = new Map<number | string, Visitor>();
  /** Visitors by their number of connections: at index 0 those with one, at the end those with the most. */
  readonly #ranks: Queue<Visitor>[] = [];
  #loggedAt = -LOG_EVERY_MS;
  /** Bytes that all connections buffer together. */
  #kept = 0;

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

  /**
   * Adds a connection. At the limit, closes one of another visitor. If none can be closed, refuses the new connection, and
   * counts it until it has closed.
   */
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
    if (isFull) this.#logFull(connection);
    if (fits) return;
    if (this.#size > CONNECTIONS_MAX * 1.1) connection.socket.destroy();
    else connection.refuse(TOO_MANY_CONNECTIONS);
  }

  /** Removes a connection. Does nothing if it was removed before. */
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

  /**
   * Counts `more` buffered bytes; negative for fewer. Above the limit, closes the connections of the visitors with the most
   * buffered bytes.
   */
  countKept(more: number): void {
    this.#kept += more;
    if (this.#kept <= this.#keptMax) return;
    // Connections of a proxy or of another host belong to many clients, so each counts alone.
    const visitors = [...this.#visitors.values()].flatMap((visitor) =>
      visitor.first!.isOfHost ? Array.from(visitor, (connection) => [connection]) : [[...visitor]],
    );
    const proxies = Array.from(this.#trusted, (connection) => [connection]);
    const greedy = [...visitors, ...proxies]
      .map((own) => ({ own, bytes: own.reduce((sum, { keptBytes }) => sum + keptBytes, 0) }))
      .sort((a, b) => b.bytes - a.bytes);
    let left = this.#kept;
    for (const { own, bytes } of greedy) {
      // Frees half of the limit at once, because the sorting of all visitors takes time.
      if (left <= this.#keptMax / 2) break;
      left -= bytes;
      logRarely(
        'warn',
        'connections buffer too much data: those of the client with the most buffered data are closed',
        {
          of: cutAddress(own[0]!.peer),
        },
      );
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

  /** Moves a visitor, which had `before` connections, to its new rank. */
  #rank(visitor: Visitor, before: number): void {
    this.#ranks[before - 1]?.delete(visitor);
    if (visitor.size > this.#ranks.length) this.#ranks.push(new Queue());
    this.#ranks[visitor.size - 1]?.add(visitor);
    if (this.#ranks.at(-1)!.size === 0) this.#ranks.pop();
  }

  /** The visitor with the most connections; null when all connections are trusted. */
  get #greediest(): Visitor | null {
    return this.#ranks.at(-1)?.first ?? null;
  }

  /**
   * Closes a connection of the visitor with the most connections, preferably an idle one. Returns false, and closes
   * nothing, if no visitor has more connections than the visitor of the new connection would have.
   */
  #makeRoom(newcomerHas: number): boolean {
    const greediest = this.#greediest;
    if (greediest === null || greediest.size <= newcomerHas + 1) return false;
    let evicted = greediest.first!;
    for (const connection of greediest) {
      if (connection.exchange !== null || connection.socket.writableLength > 0) continue;
      evicted = connection;
      break;
    }
    evicted.socket.destroy();
    this.delete(evicted);
    return true;
  }

  #logFull({ peer }: Connection): void {
    const now = performance.now();
    if (now - this.#loggedAt < LOG_EVERY_MS) return;
    this.#loggedAt = now;
    const greediest = this.#greediest;
    log('warn', 'the limit of connections is reached', {
      connections: this.#size,
      most: greediest?.size ?? 0,
      of: cutAddress(greediest?.first?.peer ?? peer),
    });
  }
}
