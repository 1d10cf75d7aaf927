// The gateway: accepts connections, and drains them at shutdown.
import { rmSync } from 'node:fs';
import type { AddressInfo, ListenOptions, Server, Socket } from 'node:net';
import { log } from '../log.ts';
import { createSocketServer } from '../sockets/gateway-socket.ts';
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
  /** Routes each request, except those at a socket of `listenService`. Called once per request, synchronously. */
  resolve: Resolve;
  /** Whether refusals of a request must be JSON-RPC. Default: never. */
  isRpc?: (head: RequestHead) => boolean;
  /** Addresses and CIDR ranges of proxies whose X-Forwarded-* headers are trusted. Default: none. */
  trustedProxies?: readonly string[];
  /** Returns the location of an address, as fields of `request.cf`: ASCII JSON without its braces. Default: nothing. */
  locate?: (address: string) => string;
  /** Whether spans of requests are exported, so that processes must record theirs. Default: false. */
  isSampled?: boolean;
  /** Longest total time that a request may be queued, in ms. */
  holdTimeoutMs: number;
  /** Maximum number of open requests with the same `share` (see `Target`). Default: a quarter of all connections. */
  shareMax?: number;
}

/** How often timeouts are checked, and counters of idle visitors are deleted, in ms. */
const SWEEP_MS = 1_000;
/**
 * Length of the kernel's accept queue: the Linux default. Node's default of 511 is too short: one client that opens and
 * closes connections quickly makes the kernel drop those of other clients, who retry a second later.
 */
const BACKLOG = 4_096;
/** Errors of `listen` on a machine without IPv6. */
const NO_IPV6 = ['EADDRNOTAVAIL', 'EAFNOSUPPORT'];
/** Maximum attempts to get a port from the system that is free on both loopback addresses. */
const TRIES = 10;
/** How long before the end of the grace period queued requests are refused, in ms: at most half of the period. */
const REFUSED_BEFORE_MS = 1_000;

/** An HTTP gateway on any number of ports. */
export class Gateway implements ConnectionOwner, ExchangeOwner {
  closing = false;
  leaving = false;
  readonly locate: (address: string) => string;
  readonly isSampled: boolean;
  readonly isRpc: (head: RequestHead) => boolean;
  readonly #router: Router;
  readonly #proxies: TrustedProxies;
  readonly #observers = new Observers();
  readonly #sweep: NodeJS.Timeout;
  readonly #servers = new Set<Server>();
  /** The servers of `listenService`. */
  readonly #services = new Set<Server>();
  readonly #connections = new Connections();
  #drained: Promise<{ cut: number }> | null = null;
  #closed: Promise<{ cut: number }> | null = null;
  /** Called when a request or a connection has ended. */
  #onSettle: () => void = () => {};

  /** @throws {TypeError} when a trusted proxy is neither an address nor a range */
  constructor(options: GatewayOptions) {
    this.#router = new Router(options.resolve, options.holdTimeoutMs, options.shareMax);
    this.locate = options.locate ?? (() => '');
    this.isSampled = options.isSampled ?? false;
    this.isRpc = options.isRpc ?? (() => false);
    this.#proxies = new TrustedProxies(options.trustedProxies ?? []);
    this.#sweep = setInterval(() => this.sweep(performance.now()), SWEEP_MS).unref();
  }

  /**
   * Listens on a port; may be called several times. Resolves with the port; with 0, the system chooses one. On a machine
   * without IPv6, listens on 0.0.0.0 instead of `::`.
   * @throws {Error} of the system when it cannot listen, such as EADDRINUSE
   */
  async listen(port: number, host: string): Promise<number> {
    const server = await this.#listen('port', { port, host }).catch((error: NodeJS.ErrnoException) => {
      if (host !== '::' || !NO_IPV6.includes(error.code!)) throw error;
      return this.#listen('port', { port, host: '0.0.0.0' });
    });
    this.#servers.add(server);
    return (server.address() as AddressInfo).port;
  }

  /**
   * Listens on a port of both loopback addresses: `localhost` may resolve to either. A machine without IPv6 has only one.
   * Resolves with the port; with 0, the system chooses one.
   * @throws {Error} of the system when it cannot listen, such as EADDRINUSE
   */
  async listenLocalhost(port: number, tries = TRIES): Promise<number> {
    const server = await this.#listen('port', { port, host: '127.0.0.1' });
    const { port: chosen } = server.address() as AddressInfo;
    try {
      await this.listen(chosen, '::1');
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (!NO_IPV6.includes(code!)) {
        server.close();
        if (port === 0 && code === 'EADDRINUSE' && tries > 1) return this.listenLocalhost(0, tries - 1);
        throw error;
      }
    }
    this.#servers.add(server);
    return chosen;
  }

  /**
   * Listens on a unix socket for our own proxy (Caddy), and replaces an existing socket. The proxy's headers are trusted.
   * @throws {Error} of the system when it cannot listen
   */
  async listenUnix(path: string): Promise<void> {
    rmSync(path, { force: true });
    this.#servers.add(await this.#listen('proxy', { path }));
  }

  /**
   * Listens on a unix socket for calls to apps: from one app, or from a process that receives e-mails or TCP connections.
   * Replaces an existing socket. Resolves with a function that stops listening.
   * @param resolve routes the requests at this socket @throws {Error} of the system when it cannot listen
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
   * Listens for the other hosts of this Cellar. Resolves with the port; with 0, the system chooses one. A caller is
   * trusted to describe the client, so `resolve` must check that the caller is a host.
   * @throws {Error} of the system when it cannot listen
   */
  async listenHosts(port: number, host: string): Promise<number> {
    const server = await this.#listen('host', { port, host });
    this.#servers.add(server);
    return (server.address() as AddressInfo).port;
  }

  /** From now on each connection closes after its next response, so that clients reconnect to another host. */
  leave(): void {
    this.leaving = true;
  }

  /**
   * Answers new requests with 503, except calls of apps. Closes idle connections, and waits up to `graceMs` for requests in
   * flight. Shortly before the end, refuses queued requests. At the end, destroys the connections that are still open;
   * `cut` is the number of their requests. A second call returns the first promise.
   */
  drain(graceMs: number): Promise<{ cut: number }> {
    this.#drained ??= this.#drain(graceMs);
    return this.#drained;
  }

  /** Drains, then stops listening. A second call returns the first promise. */
  close(graceMs: number): Promise<{ cut: number }> {
    this.#closed ??= this.#close(graceMs);
    return this.#closed;
  }

  /**
   * Calls `observer` for each finished request, whatever its outcome; not for one whose head could not be parsed.
   * Returns a function that removes the observer.
   */
  onEnd(observer: RequestObserver): () => void {
    return this.#observers.add(observer);
  }

  /** Applies the timeouts at `now`, on the clock of `performance.now()`. A timer calls it. */
  sweep(now: number): void {
    for (const connection of this.#connections) connection.check(now);
    this.#router.sweep(now);
  }

  begin(connection: Connection, head: RequestHead): void {
    const exchange = new Exchange(this, connection, head);
    connection.exchange = exchange;
    // Apps with requests in flight may still call other apps.
    if (this.closing && connection.resolve === null) exchange.refuse(CLOSING);
    else this.#router.route(exchange);
  }

  countKept(more: number): void {
    this.#connections.countKept(more);
  }

  admit(exchange: Exchange): void {
    this.#router.admit(exchange);
  }

  hold(exchange: Exchange, ready: Promise<void>): void {
    this.#router.hold(exchange, ready);
  }

  ended(exchange: Exchange): void {
    this.#router.ended(exchange);
    if (this.#observers.any) this.#observers.notify(exchange.record());
    if (this.closing) exchange.connection.ending = true;
    exchange.connection.exchanged();
    this.#onSettle();
  }

  closed(connection: Connection): void {
    if (connection.socket.destroyed) this.#connections.delete(connection);
    this.#onSettle();
  }

  #listen(entrance: Entrance, where: ListenOptions): Promise<Server> {
    const server = createSocketServer((accepted) => this.#connected(accepted, entrance));
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

  #connected(accepted: Socket, entrance: Entrance): void {
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

/** Whether a connection has closed, or can be closed without losing a request or a response. */
function isOver({ done, socket }: Connection): boolean {
  return done || socket.destroyed;
}

function ended(server: Server): Promise<unknown> {
  return new Promise((resolve) => server.close(resolve));
}
