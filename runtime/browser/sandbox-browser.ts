// The browser of a session, in its own sandbox on this machine. All connections of the sandbox use the session's socket.
import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { FairQueue } from '../queues/fair-queue.ts';
import { readAtMost } from '../sockets/read-at-most.ts';
import type { AppAddresses } from './app-addresses.ts';
import type { Browser } from './session.ts';
import { read, serveSocks } from './socks.ts';

/** Maximum connections of the sandbox: to the internet, and for DevTools. */
const SANDBOX_CONNECTIONS = 256;
/** Maximum unused connections to DevTools. Enough, because the sandbox offers one at a time. */
const OFFERED = 4;
/** Maximum DNS lookups of a session at a time. All sessions share Node's few threads for lookups. */
const LOOKUPS = 2;
/** Maximum connections of the app to DevTools. */
const APP_CONNECTIONS = 16;
/** Maximum bytes of the browser's answer about its version. */
const VERSION_BYTES = 64 * 1024;

/** What a `SandboxBrowser` needs of this machine. */
export interface Place {
  /** Path of the session's socket. */
  socket: string;
  /** Asks the host to start or end the browser. */
  ask: (wanted: boolean) => void;
  addresses: AppAddresses;
}

export class SandboxBrowser implements Browser {
  readonly connections = APP_CONNECTIONS;
  readonly silence = 'the browser does not answer; its page may keep it busy';
  readonly #place: Place;
  readonly #server: Server;
  readonly #lookups = new FairQueue({
    name: 'lookups',
    running: LOOKUPS,
    runningPerOwner: LOOKUPS,
    waitingPerOwner: SANDBOX_CONNECTIONS,
  });
  /** Connections to DevTools that are not used yet. */
  readonly #offered: Socket[] = [];
  /** Requests that wait for a connection to DevTools. */
  readonly #waiting: ((socket: Socket) => void)[] = [];
  readonly #sockets = new Set<Socket>();
  #path = '';

  constructor(place: Place) {
    this.#place = place;
    this.#server = createServer({ allowHalfOpen: true }, (socket) => void this.#connected(socket));
    this.#server.maxConnections = SANDBOX_CONNECTIONS;
  }

  async start(signal: AbortSignal): Promise<void> {
    rmSync(this.#place.socket, { force: true });
    this.#server.listen(this.#place.socket, SANDBOX_CONNECTIONS);
    await once(this.#server, 'listening');
    // Any user may connect, because the browser runs as another user. Its sandbox contains no other socket.
    chmodSync(this.#place.socket, 0o666);
    this.#place.ask(true);
    const request = (await this.request('/json/version', 'GET', {}, signal)).end();
    const [response] = (await once(request, 'response', { signal })) as [IncomingMessage];
    const body = await readAtMost(response, VERSION_BYTES);
    const { webSocketDebuggerUrl } = JSON.parse(String(body)) as { webSocketDebuggerUrl: string };
    this.#path = new URL(webSocketDebuggerUrl).pathname;
  }

  async request(
    path: string | null,
    method: string,
    headers: Record<string, string>,
    signal: AbortSignal,
  ): Promise<ClientRequest> {
    const socket = this.#offered.shift() ?? (await this.#nextOffered(signal));
    return httpRequest({
      createConnection: () => socket,
      path: path ?? this.#path,
      method,
      headers: { ...headers, host: '127.0.0.1' },
      signal,
    });
  }

  end(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    this.#place.ask(false);
    rmSync(this.#place.socket, { force: true });
  }

  /** Takes a connection from the sandbox. The first byte names its purpose: see `sandbox-program.js`. */
  async #connected(socket: Socket): Promise<void> {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    socket.on('error', () => socket.destroy());
    const way = await read(socket, 1).then(String, () => null);
    if (way === 'o') return serveSocks(socket, this.#place.addresses, this.#lookups);
    const give = way === 'd' ? this.#waiting.shift() : undefined;
    if (give !== undefined) give(socket);
    else if (way === 'd' && this.#offered.length < OFFERED) this.#offered.push(socket);
    else socket.destroy();
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
