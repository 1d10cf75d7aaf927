// The gateway: takes connections, and ends them all when it has to go.
import { rmSync } from 'node:fs';
import type { AddressInfo, ListenOptions, Server } from 'node:net';
import { log } from '../log.ts';
import { createHandleServer, type SocketHandle } from '../sockets/socket-handle.ts';
import { TrustedProxies } from './client.ts';
import { Connection, type ConnectionOwner, type Entrance } from './connection.ts';
import { Connections } from './connections.ts';
import { Exchange, type ExchangeOwner } from './exchange.ts';
import type { RequestHead } from './http/head/head.ts';
import { Observers, type RequestObserver } from './log/record.ts';
import { CLOSING } from './refusals.ts';
import { Router } from './router.ts';
import type { Resolve } from './target.ts';

export type { LocalAnswer } from './answers.ts';
export type { RequestHead } from './http/head/head.ts';
export type { Refusal } from './refusals.ts';
export type { Resolve, Spans, Target } from './target.ts';

export interface GatewayOptions {
  /** Called once per request, synchronously. */
  resolve: Resolve;
  /** Addresses and CIDR ranges of proxies whose X-Forwarded-* headers are believed. None by default. */
  trustedProxies?: readonly string[];
  /** What is known of where an address is, as fields of `request.cf`: JSON in ASCII without its braces. Nothing by default. */
  locate?: (address: string) => string;
  /** Whether spans of requests are exported, so that processes are told to record theirs. Not by default. */
  isSampled?: boolean;
  /** How long a request may be held in all, in ms. */
  holdTimeoutMs: number;
}

/** How often slow clients are looked for, and visitors that have gone forgotten, in ms. */
const SWEEP_MS = 1_000;
/**
 * Connections that may wait to be accepted, as many as Linux lets wait by default. With Node's 511, whoever opened and closed
 * connections as fast as possible had the kernel drop those of others, which were then tried again a second later.
 */
const BACKLOG = 4_096;
/** What is held is refused so long before a closing gateway cuts what is left, in ms. */
const REFUSED_BEFORE_MS = 1_000;

/** An HTTP gateway on any number of ports. */
export class Gateway implements ConnectionOwner, ExchangeOwner {
  closing = false;
  readonly locate: (address: string) => string;
  readonly isSampled: boolean;
  readonly #router: Router;
  readonly #proxies: TrustedProxies;
  readonly #observers = new Observers();
  readonly #sweep: NodeJS.Timeout;
  readonly #servers = new Set<Server>();
  /** Those by which apps call each other. */
  readonly #services = new Set<Server>();
  readonly #connections = new Connections();
  #drained: Promise<{ cut: number }> | null = null;
  #closed: Promise<{ cut: number }> | null = null;
  /** Called when a request or a connection has ended. */
  #onSettle: () => void = () => {};

  /** @throws {TypeError} when a trusted proxy is neither an address nor a range */
  constructor(options: GatewayOptions) {
    this.#router = new Router(options.resolve, options.holdTimeoutMs);
    this.locate = options.locate ?? (() => '');
    this.isSampled = options.isSampled ?? false;
    this.#proxies = new TrustedProxies(options.trustedProxies ?? []);
    this.#sweep = setInterval(() => this.sweep(performance.now()), SWEEP_MS).unref();
  }

  /**
   * Listens on a port; may be called for several. Resolves with the port, which 0 leaves to the system.
   * @throws {Error} of the system when it cannot, such as EADDRINUSE
   */
  async listen(port: number, host: string): Promise<number> {
    const server = await this.#listen('port', { port, host });
    this.#servers.add(server);
    return (server.address() as AddressInfo).port;
  }

  /**
   * Listens on a unix socket, in place of one that was left there. Whoever calls on it is a trusted proxy.
   * @throws {Error} of the system when it cannot
   */
  async listenUnix(path: string): Promise<void> {
    rmSync(path, { force: true });
    this.#servers.add(await this.#listen('proxy', { path }));
  }

  /**
   * Listens on a unix socket by which one app calls others, in place of one that was left there. Call what it resolves with
   * to take no more of its connections.
   * @param resolve where its requests go @throws {Error} of the system when it cannot
   */
  async listenService(path: string, resolve: Resolve): Promise<() => void> {
    rmSync(path, { force: true });
    const server = await this.#listen(resolve, { path });
    this.#services.add(server);
    return () => {
      this.#services.delete(server);
      server.close();
    };
  }

  /**
   * Answers new requests 503 from now on, closes idle connections, lets what is in flight finish for up to `graceMs` and cuts
   * the rest, which it counts. What is still held shortly before that is refused, too. A second call returns the first one's promise.
   */
  drain(graceMs: number): Promise<{ cut: number }> {
    this.#drained ??= this.#drain(graceMs);
    return this.#drained;
  }

  /** Drains, then stops listening. A second call returns the first one's promise. */
  close(graceMs: number): Promise<{ cut: number }> {
    this.#closed ??= this.#close(graceMs);
    return this.#closed;
  }

  /**
   * Has `observer` told of each request that is over, whatever became of it; not of one whose head could not be read.
   * Call what it returns to end that.
   */
  onEnd(observer: RequestObserver): () => void {
    return this.#observers.add(observer);
  }

  /** Gives up clients that have been too slow at `now`, on the clock of `performance.now()`. Calls itself in time. */
  sweep(now: number): void {
    for (const connection of this.#connections) connection.check(now);
    this.#router.sweep(now);
  }

  begin(connection: Connection, head: RequestHead): void {
    const exchange = new Exchange(this, connection, head);
    connection.exchange = exchange;
    // Requests in flight may still call other apps.
    if (this.closing && connection.resolve === null) exchange.refuse(CLOSING);
    else this.#router.route(exchange);
  }

  kept(more: number): void {
    this.#connections.kept(more);
  }

  admit(exchange: Exchange): void {
    this.#router.admit(exchange);
  }

  ended(exchange: Exchange): void {
    if (this.#observers.any) this.#observers.tell(exchange.record());
    if (this.closing) exchange.connection.ending = true;
    exchange.connection.exchanged();
    this.#onSettle();
  }

  closed(connection: Connection): void {
    if (connection.socket.destroyed) this.#connections.delete(connection);
    this.#onSettle();
  }

  #listen(entrance: Entrance, where: ListenOptions): Promise<Server> {
    const server = createHandleServer((accepted) => this.#connected(accepted, entrance));
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen({ ...where, backlog: BACKLOG }, () => {
        server.off('error', reject);
        server.on('error', ({ message }) =>
          log('error', 'a connection was not accepted', { reason: message }),
        );
        resolve(server);
      });
    });
  }

  #connected(accepted: SocketHandle, entrance: Entrance): void {
    this.#connections.add(new Connection(this, accepted, this.#proxies, entrance));
  }

  async #close(graceMs: number): Promise<{ cut: number }> {
    const drained = await this.drain(graceMs);
    const stopped = [...this.#servers, ...this.#services].map(ended);
    for (const { socket } of [...this.#connections]) socket.destroy();
    clearInterval(this.#sweep);
    await Promise.all(stopped);
    return drained;
  }

  async #drain(graceMs: number): Promise<{ cut: number }> {
    this.closing = true;
    const before = [...this.#connections];
    for (const connection of before) {
      if (connection.exchange === null) connection.close();
      else connection.exchange.endEndless();
    }
    const refusal = setTimeout(
      () => this.#router.refuseHeld(),
      Math.max(graceMs - REFUSED_BEFORE_MS, graceMs / 2),
    );
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, graceMs);
      this.#onSettle = () => {
        if (!before.every(isOver)) return;
        clearTimeout(timer);
        resolve();
      };
      this.#onSettle();
    });
    clearTimeout(refusal);
    this.#onSettle = () => {};
    const left = before.filter((connection) => !isOver(connection));
    const cut = left.filter(({ exchange }) => exchange !== null).length;
    for (const { socket } of left) socket.destroy();
    return { cut };
  }
}

/** Whether closing it loses nothing. */
function isOver({ done, socket }: Connection): boolean {
  return done || socket.destroyed;
}

function ended(server: Server): Promise<unknown> {
  return new Promise((resolve) => server.close(resolve));
}
