// One browser session: its browser runs in a sandbox of its own, and is connected through a socket of the session alone.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { readAtMost } from '../sockets/read-at-most.ts';
import type { AppAddresses } from './app-addresses.ts';
import { failed, tooMany } from './errors.ts';
import { read, serveSocks } from './socks.ts';

/** Timeout for the start of a browser, in ms: many may start at once on a busy machine. */
const START_MS = 120_000;
/** Timeout for a connection to DevTools, and for its answers besides WebSockets, in ms. */
const DEVTOOLS_MS = 15_000;
/** Most connections of the sandbox: to the internet, and for DevTools. */
const SANDBOX_CONNECTIONS = 256;
/** Most unused connections to DevTools: the sandbox offers one at a time. */
const OFFERED = 4;
/** Most connections of the app. */
const APP_CONNECTIONS = 16;
/** Most bytes of an answer of DevTools besides WebSockets: the description of the protocol has the most. */
const ANSWER_BYTES = 8 * 2 ** 20;

/** Why a session ended, as Cloudflare numbers it. */
export const CLOSED = { normal: 1, idle: 2, error: 3 };

/** The machine's side of a session. */
export interface Place {
  /** Path of its socket. */
  socket: string;
  /** Asks the host to start or end the browser. */
  ask: (wanted: boolean) => void;
  addresses: AppAddresses;
}

/** What an app sees of a session, by Cloudflare's names. Times are in ms since 1970. */
export interface SessionInfo {
  sessionId: string;
  startTime: number;
  connectionId?: string;
  connectionStartTime?: number;
  endTime?: number;
  closeReason?: number;
  closeReasonText?: string;
}

export class Session {
  readonly id: string = randomUUID();
  readonly #place: Place;
  readonly #keepAliveMs: number;
  readonly #onEnd: () => void;
  readonly #server: Server;
  readonly #info: SessionInfo;
  /** Connections to DevTools that are not used yet, and calls that wait for one. */
  readonly #offered: Socket[] = [];
  readonly #waiting: ((socket: Socket) => void)[] = [];
  readonly #sockets = new Set<Duplex>();
  #appConnections = 0;
  #idle: NodeJS.Timeout | undefined;
  #browserPath = '';
  readonly #ending = new AbortController();

  /** @param keepAliveMs how long the browser may wait for a command */
  constructor(place: Place, keepAliveMs: number, onEnd: () => void) {
    this.#place = place;
    this.#keepAliveMs = keepAliveMs;
    this.#onEnd = onEnd;
    this.#info = { sessionId: this.id, startTime: Date.now() };
    this.#server = createServer({ allowHalfOpen: true }, (socket) => void this.#connected(socket));
    this.#server.maxConnections = SANDBOX_CONNECTIONS;
  }

  get info(): SessionInfo {
    return { ...this.#info };
  }

  get hasEnded(): boolean {
    return this.#ending.signal.aborted;
  }

  /** Starts the browser. @throws {BrowserError} when it does not start; then the session has ended */
  async start(): Promise<void> {
    if (this.hasEnded) throw this.#failure();
    try {
      rmSync(this.#place.socket, { force: true });
      this.#server.listen(this.#place.socket, SANDBOX_CONNECTIONS);
      await once(this.#server, 'listening');
      // The browser has another user. Its sandbox has this socket alone.
      chmodSync(this.#place.socket, 0o666);
      this.#place.ask(true);
      const { body } = await this.request('/json/version', 'GET', START_MS);
      const { webSocketDebuggerUrl } = JSON.parse(body) as { webSocketDebuggerUrl: string };
      this.#browserPath = new URL(webSocketDebuggerUrl).pathname;
      this.#used();
    } catch (error) {
      this.end(CLOSED.error, 'the browser did not start');
      throw error;
    }
  }

  /**
   * Asks DevTools by HTTP.
   * @throws {BrowserError} when the browser has ended or does not answer
   */
  async request(
    path: string,
    method: string,
    timeoutMs = DEVTOOLS_MS,
  ): Promise<{ status: number; body: string }> {
    this.#used();
    const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(timeoutMs)]);
    try {
      const options = await this.#devtools(path, method, signal);
      const request = httpRequest(options).end();
      const [response] = (await once(request, 'response', { signal })) as [IncomingMessage];
      const body = await readAtMost(response, ANSWER_BYTES);
      return { status: response.statusCode!, body: body!.toString('utf8') };
    } catch {
      throw this.#failure();
    }
  }

  /**
   * Connects a WebSocket of the app to DevTools.
   * @param path below `/devtools`; null: the browser itself
   * @throws {BrowserError} before anything was sent
   */
  async connect(
    path: string | null,
    { headers }: IncomingMessage,
    client: Duplex,
    head: Buffer,
  ): Promise<void> {
    if (this.#appConnections >= APP_CONNECTIONS)
      throw tooMany(`a browser session may have ${APP_CONNECTIONS} connections`);
    this.#appConnections++;
    client.once('close', () => this.#appConnections--);
    this.#used();
    let upstream: Duplex;
    let accept: string | undefined;
    let first: Buffer;
    const signal = AbortSignal.any([this.#ending.signal, AbortSignal.timeout(DEVTOOLS_MS)]);
    try {
      const options = await this.#devtools(path ?? this.#browserPath, 'GET', signal);
      const upgrade = {
        upgrade: 'websocket',
        connection: 'Upgrade',
        'sec-websocket-version': '13',
        'sec-websocket-key': headers['sec-websocket-key'] ?? '',
      };
      const request = httpRequest({ ...options, headers: { ...options.headers, ...upgrade } }).end();
      // Without an upgrade, the response would keep its connection.
      request.once('response', (response: IncomingMessage) => response.destroy(new Error('no upgrade')));
      const [response, socket, rest] = (await once(request, 'upgrade', { signal })) as [
        IncomingMessage,
        Duplex,
        Buffer,
      ];
      upstream = socket;
      first = rest;
      accept = response.headers['sec-websocket-accept'];
    } catch {
      throw this.#failure();
    }
    // The client may have left meanwhile.
    if (client.destroyed) return void upstream.destroy();
    const connectionId = randomUUID();
    Object.assign(this.#info, { connectionId, connectionStartTime: Date.now() });
    client.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\ncf-browser-session-id: ${this.id}\r\n\r\n`,
    );
    client.write(first);
    upstream.write(head);
    this.#sockets.add(client);
    client.on('data', () => this.#used());
    for (const [from, to] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      from.on('error', () => {});
      from.on('close', () => to.destroy());
      from.pipe(to);
    }
    client.on('close', () => {
      this.#sockets.delete(client);
      if (this.#info.connectionId !== connectionId) return;
      delete this.#info.connectionId;
      delete this.#info.connectionStartTime;
    });
  }

  /** Ends the browser and all connections. */
  end(closeReason: number, closeReasonText: string): void {
    if (this.hasEnded) return;
    delete this.#info.connectionId;
    delete this.#info.connectionStartTime;
    Object.assign(this.#info, { endTime: Date.now(), closeReason, closeReasonText });
    clearTimeout(this.#idle);
    this.#ending.abort();
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#place.ask(false);
    rmSync(this.#place.socket, { force: true });
    this.#onEnd();
  }

  #failure() {
    return failed(
      this.hasEnded
        ? `the browser session has ended: ${this.#info.closeReasonText}`
        : 'the browser does not answer; its page may keep it busy',
    );
  }

  #used(): void {
    // The start has a timeout of its own.
    if (this.hasEnded || this.#browserPath === '') return;
    clearTimeout(this.#idle);
    const seconds = this.#keepAliveMs / 1000;
    this.#idle = setTimeout(
      () => this.end(CLOSED.idle, `no command came for ${seconds} seconds`),
      this.#keepAliveMs,
    );
  }

  /** Takes a connection of the sandbox: its first byte says what it is for. */
  async #connected(socket: Socket): Promise<void> {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    const way = await read(socket, 1).then(String, () => null);
    if (way === 'o') return serveSocks(socket, this.#place.addresses);
    const give = way === 'd' ? this.#waiting.shift() : undefined;
    if (give !== undefined) give(socket);
    else if (way === 'd' && this.#offered.length < OFFERED) this.#offered.push(socket);
    else socket.destroy();
  }

  /** Returns the options of a request to DevTools, with a connection. */
  async #devtools(path: string, method: string, signal: AbortSignal): Promise<RequestOptions> {
    const socket = this.#offered.shift() ?? (await this.#nextOffered(signal));
    return { createConnection: () => socket, path, method, headers: { host: '127.0.0.1' }, signal };
  }

  #nextOffered(signal: AbortSignal): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const refuse = () => {
        this.#waiting.splice(this.#waiting.indexOf(give), 1);
        reject(signal.reason as Error);
      };
      const give = (socket: Socket) => {
        signal.removeEventListener('abort', refuse);
        resolve(socket);
      };
      this.#waiting.push(give);
      signal.addEventListener('abort', refuse);
      if (signal.aborted) refuse();
    });
  }
}
