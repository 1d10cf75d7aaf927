// One browser session of an app: its timeouts, and its connections to the browser's DevTools.
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { logRarely, reason } from '../log.ts';
import { BrowserError, failed, tooMany } from './errors.ts';

/** Timeout for the start of a browser, in ms: many may start at once on a busy machine. */
const START_MS = 120_000;
/** Timeout for an HTTP request to DevTools with its response, and for opening a WebSocket to DevTools, in ms. */
const DEVTOOLS_MS = 15_000;

/** Reasons for the end of a session, with Cloudflare's numbers. */
export const CLOSED = { normal: 1, idle: 2, error: 3 };

/** The browser of a session. */
export interface Browser {
  /** Maximum WebSockets of the app to the browser. When it is 1, the session ends with its WebSocket. */
  readonly connections: number;
  /** The error message for the app when the browser does not answer. */
  readonly silence: string;
  start(signal: AbortSignal): Promise<void>;
  /**
   * Opens a request to DevTools. The caller sends it with `end()`.
   * @param path null: the path of the browser's own WebSocket
   */
  request(
    path: string | null,
    method: string,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<ClientRequest>;
  /** Ends the browser and its connections. */
  end(): void;
}

/** The description of a session that is sent to its app, by Cloudflare's names. Times are in ms since 1970. */
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
  readonly #browser: Browser;
  readonly #keepAliveMs: number;
  readonly #onEnd: () => void;
  readonly #info: SessionInfo;
  readonly #sockets = new Set<Duplex>();
  #appConnections = 0;
  #idle: NodeJS.Timeout | undefined;
  #hasStarted = false;
  readonly #ending = new AbortController();

  /** @param keepAliveMs how long the browser may wait for a command, in ms @param onEnd called once, at the session's end */
  constructor(browser: Browser, keepAliveMs: number, onEnd: () => void) {
    this.#browser = browser;
    this.#keepAliveMs = keepAliveMs;
    this.#onEnd = onEnd;
    this.#info = { sessionId: this.id, startTime: Date.now() };
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
      await this.#browser.start(this.#deadline(START_MS));
      this.#hasStarted = true;
      this.#used();
    } catch (error) {
      const failure = this.#failure(error);
      this.end(CLOSED.error, 'the browser did not start');
      throw failure;
    }
  }

  /**
   * Sends an HTTP request to DevTools. The response must end within 15 seconds.
   * @throws {BrowserError} when the browser has ended or does not answer
   */
  async request(path: string, method: string): Promise<IncomingMessage> {
    this.#used();
    const signal = this.#deadline(DEVTOOLS_MS);
    try {
      const request = (await this.#browser.request(path, method, {}, signal)).end();
      const [response] = (await once(request, 'response', { signal })) as [IncomingMessage];
      return response;
    } catch (error) {
      throw this.#failure(error);
    }
  }

  /**
   * Connects a WebSocket of the app to DevTools.
   * @param path of a page's WebSocket, starting with `/devtools/page/`; null: the browser's own WebSocket
   * @throws {BrowserError} when no WebSocket was opened; then nothing was sent to the client
   */
  async connect(
    path: string | null,
    { headers }: IncomingMessage,
    client: Duplex,
    head: Buffer,
  ): Promise<void> {
    // A client that left while the browser started emits no further 'close', so it must not be counted.
    if (client.destroyed) return;
    const { connections } = this.#browser;
    if (this.#appConnections >= connections)
      throw tooMany(`a browser session may have at most ${connections} connections; close one first`);
    this.#appConnections++;
    client.once('close', () => this.#appConnections--);
    this.#used();
    let upstream: Duplex;
    let accept: string | undefined;
    let first: Buffer;
    const signal = this.#deadline(DEVTOOLS_MS);
    try {
      const upgrade = {
        upgrade: 'websocket',
        connection: 'Upgrade',
        'sec-websocket-version': '13',
        'sec-websocket-key': headers['sec-websocket-key'] ?? '',
      };
      const request = (await this.#browser.request(path, 'GET', upgrade, signal)).end();
      request.once('response', ({ statusCode }: IncomingMessage) =>
        request.destroy(new Error(`the answer is ${statusCode}, not a WebSocket`)),
      );
      const [response, socket, rest] = (await once(request, 'upgrade', { signal })) as [
        IncomingMessage,
        Duplex,
        Buffer,
      ];
      upstream = socket;
      first = rest;
      accept = response.headers['sec-websocket-accept'];
    } catch (error) {
      throw this.#failure(error);
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
      if (connections === 1) return this.end(CLOSED.normal, 'its only connection was closed');
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
    for (const socket of this.#sockets) socket.destroy();
    this.#browser.end();
    this.#onEnd();
  }

  #deadline(ms: number): AbortSignal {
    return AbortSignal.any([this.#ending.signal, AbortSignal.timeout(ms)]);
  }

  #failure(error?: unknown): BrowserError {
    if (this.hasEnded) return failed(`the browser session has ended: ${this.#info.closeReasonText}`);
    if (error instanceof BrowserError) return error;
    logRarely('warn', this.#browser.silence, { error: reason(error) });
    return failed(this.#browser.silence);
  }

  #used(): void {
    // Until the browser has started, only the timeout of the start applies.
    if (this.hasEnded || !this.#hasStarted) return;
    clearTimeout(this.#idle);
    const seconds = this.#keepAliveMs / 1000;
    this.#idle = setTimeout(
      () => this.end(CLOSED.idle, `no command came for ${seconds} seconds`),
      this.#keepAliveMs,
    );
  }
}
