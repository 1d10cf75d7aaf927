// The gateway: takes connections, finds the site of each request, and sees it through to an answer.
import { rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo, ListenOptions, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { log, reason as messageOf } from '../log.ts';
import { type LocalAnswer, rawRefusal, refusalAnswer } from './answers.ts';
import type { Backend } from './backend.ts';
import { TrustedProxies } from './client.ts';
import { Connection } from './connection.ts';
import { Exchange, type ExchangeOwner, type UpgradeWish } from './forward.ts';
import { headerValue, type RequestHead, readHead } from './head.ts';
import { Holds } from './hold.ts';
import { randomHex } from './ids.ts';
import { Limiter, type SiteLimits } from './limits.ts';
import {
  HEAD_TOO_LARGE,
  HEAD_TOO_SLOW,
  HELD_TOO_LONG,
  INTERNAL,
  NO_CONNECT,
  NOT_HTTP,
  type OwnRefusal,
  TOO_MANY_HELD,
  tooManyRequests,
  UNKNOWN_EXPECTATION,
} from './refusals.ts';
import { GatewayResponse } from './reply.ts';
import { type GatewayServer, gatewayServer } from './server.ts';
import type { FinishedRequest } from './tally.ts';
import { WaitingSocket } from './tunnel.ts';

export type { LocalAnswer, Refusal } from './answers.ts';
export type { RequestHead } from './head.ts';

/** Where a request goes, and the limits it is under, if any. */
export type Target = { limits?: SiteLimits } & (
  | { kind: 'proxy'; backend: Backend }
  | { kind: 'respond'; respond: (head: RequestHead) => LocalAnswer | Promise<LocalAnswer> }
);

export interface GatewayOptions {
  /** Called once per request, synchronously. */
  resolve: (head: RequestHead) => Target;
  /** Addresses and CIDR ranges of proxies whose X-Forwarded-* headers are believed. None by default. */
  trustedProxies?: readonly string[];
  /** How long a request may be held in all, in ms. */
  holdTimeoutMs: number;
  /** Called when a request is over, whatever became of it; not for one whose head could not be read. Must not throw. */
  onEnd?: (request: FinishedRequest) => void;
}

/** How often visitors that have gone are forgotten even if nobody comes, in ms. */
const SWEEP_MS = 10_000;

/** An HTTP gateway on any number of ports. */
export class Gateway {
  readonly #resolve: (head: RequestHead) => Target;
  readonly #proxies: TrustedProxies;
  readonly #holds: Holds;
  readonly #limiter = new Limiter();
  readonly #sweep: NodeJS.Timeout;
  readonly #servers: GatewayServer[] = [];
  readonly #connections = new Map<Duplex, Connection>();
  readonly #owner: ExchangeOwner & { closing: boolean };
  #closed: Promise<{ cut: number }> | null = null;
  #onIdle: (() => void) | null = null;

  /** @throws {TypeError} when a trusted proxy is neither an address nor a range */
  constructor(options: GatewayOptions) {
    this.#resolve = options.resolve;
    this.#proxies = new TrustedProxies(options.trustedProxies ?? []);
    this.#holds = new Holds(options.holdTimeoutMs);
    this.#sweep = setInterval(() => this.#limiter.sweep(performance.now()), SWEEP_MS).unref();
    this.#owner = {
      closing: false,
      admit: (exchange) => this.#admit(exchange),
      ended: (exchange) => {
        options.onEnd?.(exchange);
        this.#ended(exchange);
      },
    };
  }

  /**
   * Listens on a port; may be called for several. Resolves with the port, which 0 leaves to the system.
   * @throws {Error} of the system when it cannot, such as EADDRINUSE
   */
  async listen(port: number, host: string): Promise<number> {
    const server = await this.#listen(this.#createServer(false), { port, host });
    return (server.address() as AddressInfo).port;
  }

  /**
   * Listens on a unix socket, in place of one that was left there. Whoever calls on it is a trusted proxy.
   * @throws {Error} of the system when it cannot
   */
  async listenUnix(path: string): Promise<void> {
    rmSync(path, { force: true });
    await this.#listen(this.#createServer(true), { path });
  }

  #listen(server: GatewayServer, where: ListenOptions): Promise<GatewayServer> {
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(where, () => {
        server.off('error', reject);
        this.#servers.push(server);
        resolve(server);
      });
    });
  }

  /**
   * Stops accepting, closes idle connections, lets what is in flight finish for up to `graceMs` and cuts the rest,
   * which it counts. A second call returns the first one's promise.
   */
  close(graceMs: number): Promise<{ cut: number }> {
    this.#closed ??= this.#close(graceMs);
    return this.#closed;
  }

  async #close(graceMs: number): Promise<{ cut: number }> {
    this.#owner.closing = true;
    clearInterval(this.#sweep);
    const stopped = this.#servers.map((server) => new Promise((resolve) => server.close(resolve)));
    for (const { socket, exchanges } of [...this.#connections.values()]) {
      if (exchanges.size === 0) socket.destroySoon();
      for (const exchange of [...exchanges]) exchange.closeTunnel();
    }
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, graceMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#settle();
    });
    this.#onIdle = null;
    const left = [...this.#connections.values()];
    const cut = left.reduce((count, { exchanges }) => count + exchanges.size, 0);
    for (const { socket } of left) socket.destroy();
    await Promise.all(stopped);
    return { cut };
  }

  #settle(): void {
    if (this.#onIdle === null) return;
    for (const { exchanges } of this.#connections.values()) if (exchanges.size > 0) return;
    this.#onIdle();
  }

  #createServer(own: boolean): GatewayServer {
    const server = gatewayServer((request) => this.#mayUpgrade(request));
    server.on('connection', (socket) => this.#connected(socket, own));
    server.on('request', (request, response) => this.#begin(request, response, false, null));
    server.on('checkContinue', (request, response) => this.#begin(request, response, true, null));
    server.on('checkExpectation', (request, response) =>
      this.#refuse(request, response, UNKNOWN_EXPECTATION),
    );
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket as Socket, head));
    server.on('connect', (_request, socket) => endRaw(socket, NO_CONNECT));
    server.on('timeout', (socket) => this.#idle(socket));
    server.on('clientError', (error, socket) => this.#clientError(error, socket));
    return server;
  }

  #connected(socket: Socket, own: boolean): void {
    const connection = new Connection(socket, this.#proxies, own);
    this.#connections.set(socket, connection);
    socket.on('close', () => {
      this.#connections.delete(socket);
      connection.closed();
    });
  }

  #begin(
    request: IncomingMessage,
    response: GatewayResponse,
    awaitsContinue: boolean,
    upgrade: UpgradeWish | null,
  ): void {
    const { socket } = request;
    const connection = this.#connections.get(socket);
    if (connection === undefined || connection.ending) return;
    const head = readHead(request);
    if ('refusal' in head) {
      this.#refuse(request, response, head.refusal);
      return;
    }
    const owner = this.#owner;
    this.#route(new Exchange({ owner, connection, request, response, head, awaitsContinue, upgrade }));
  }

  #route(exchange: Exchange): void {
    const { head } = exchange;
    try {
      const target = this.#resolve(head);
      const wait = this.#secondsToWait(target, exchange);
      if (wait > 0) {
        exchange.refuse(tooManyRequests(wait));
        return;
      }
      if (target.kind === 'respond') {
        void this.#respond(exchange, target.respond);
        return;
      }
      exchange.backend = target.backend;
    } catch (error) {
      log('error', 'a request could not be routed', { host: head.host, reason: messageOf(error) });
      exchange.refuse(INTERNAL);
      return;
    }
    this.#admit(exchange);
  }

  /** 0 unless a limit stops the request. */
  #secondsToWait({ limits }: Target, exchange: Exchange): number {
    if (limits === undefined) return 0;
    exchange.site = limits.site;
    return this.#limiter.admit(limits, exchange.client, performance.now());
  }

  async #respond(
    exchange: Exchange,
    respond: (head: RequestHead) => LocalAnswer | Promise<LocalAnswer>,
  ): Promise<void> {
    try {
      const answer = await respond(exchange.head);
      if ('refusal' in answer) exchange.refuse(answer.refusal);
      else exchange.answer(answer);
    } catch (error) {
      log('error', 'a local answer failed', { host: exchange.head.host, reason: messageOf(error) });
      exchange.refuse(INTERNAL);
    }
  }

  #admit(exchange: Exchange): void {
    try {
      const admission = exchange.backend!.admit();
      if (admission.kind === 'forward') exchange.forward(admission.upstream);
      else if (admission.kind === 'refuse') exchange.refuse(admission);
      else void this.#hold(exchange, admission.ready);
    } catch (error) {
      log('error', 'a request could not be admitted', { host: exchange.head.host, reason: messageOf(error) });
      exchange.refuse(INTERNAL);
    }
  }

  async #hold(exchange: Exchange, ready: Promise<void>): Promise<void> {
    const outcome = await this.#holds.wait(exchange, ready);
    if (outcome === 'ready') this.#admit(exchange);
    else if (outcome === 'late') exchange.refuse(HELD_TOO_LONG);
    else if (outcome === 'full') exchange.refuse(TOO_MANY_HELD);
  }

  #ended({ connection }: Exchange): void {
    if (!this.#owner.closing) return;
    if (connection.exchanges.size === 0) connection.socket.destroySoon();
    this.#settle();
  }

  /** Only a bare GET on a connection that carries nothing else. `h2c` would take requests past the checks here. */
  #mayUpgrade(request: IncomingMessage): boolean {
    const { headers } = request;
    const connection = this.#connections.get(request.socket);
    return (
      connection !== undefined &&
      connection.exchanges.size === 0 &&
      !connection.ending &&
      request.method === 'GET' &&
      request.httpVersionMinor === 1 &&
      headers['content-length'] === undefined &&
      headers['transfer-encoding'] === undefined &&
      !/\bh2c\b/i.test(headers.upgrade ?? '')
    );
  }

  #upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void {
    const response = new GatewayResponse(request);
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.on('finish', () => socket.destroySoon());
    socket.on('drain', () => response.emit('drain'));
    socket.on('error', () => socket.destroy());
    const upgrade = { protocol: request.headers.upgrade!, waiting: new WaitingSocket(socket, head) };
    this.#begin(request, response, false, upgrade);
  }

  /** Answers a request that never became an exchange, and ends its connection. */
  #refuse(request: IncomingMessage, response: GatewayResponse, refusal: OwnRefusal): void {
    const connection = this.#connections.get(request.socket);
    if (connection === undefined || connection.ending) return;
    connection.ending = true;
    const { status, headers, body } = refusalAnswer(refusal, headerValue(request.rawHeaders, 'accept'));
    response.writeHead(status, {
      ...headers,
      'x-request-id': randomHex(16),
      'content-length': Buffer.byteLength(body),
      connection: 'close',
    });
    response.end(body);
  }

  /** A connection on which nothing has moved for its time: kept only while it is the process that is waited for. */
  #idle(socket: Socket): void {
    const connection = this.#connections.get(socket);
    if (connection?.waitsForProcess()) connection.limitIdle();
    else socket.destroy();
  }

  /** What Node's parser refused, or a head that took too long. */
  #clientError(error: Error & { code?: string }, socket: Duplex): void {
    const connection = this.#connections.get(socket);
    const exchanges = [...(connection?.exchanges ?? [])];
    // The answer that ends the connection is on its way: what came after its request does not matter.
    const last = exchanges.length > 0 && error.code === 'HPE_CLOSED_CONNECTION';
    if (last || connection?.ending) return;
    const answered = exchanges.length > 1 || exchanges.some((exchange) => exchange.answerBegun);
    if (answered || !socket.writable || error.code === 'ECONNRESET') {
      socket.destroy();
      return;
    }
    if (error.code === 'HPE_HEADER_OVERFLOW') endRaw(socket, HEAD_TOO_LARGE);
    else if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') endRaw(socket, HEAD_TOO_SLOW);
    else endRaw(socket, NOT_HTTP);
  }
}

function endRaw(socket: Duplex, refusal: OwnRefusal): void {
  socket.end(rawRefusal(refusal, randomHex(16)), () => socket.destroy());
}
