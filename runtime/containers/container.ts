// The container of one Durable Object, as the service sees it: its ports, its access to the internet, and its end with the
// object.
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import {
  type AddressInfo,
  connect,
  createServer as createNetServer,
  type Server as NetServer,
  type Socket,
} from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AppAddresses } from '../browser/app-addresses.ts';
import { readAtMost } from '../sockets/read-at-most.ts';
import { egressProxy } from './egress.ts';
import { parseImageText } from './image-reference.ts';
import { join } from './join.ts';
import type { ContainerRequest, Spec } from './messages.ts';

/** Timeout of a connection to a port of the container, in ms. */
const CONNECT_MS = 10_000;
const CONNECTIONS = 256;
/** Maximum bytes of a message from workerd. */
const MESSAGE_BYTES = 64 * 1024;
/** Timeout for workerd to name `#lifePort`, in ms. */
const HELLO_MS = 60_000;
const KILLED = 137;
const PROXY = 'http://127.0.0.1:39001';
const LOCAL = 'localhost,127.0.0.1,::1';
/** Environment variables in which programs look for their proxy. */
const PROXY_VARIABLES = {
  HTTP_PROXY: PROXY,
  HTTPS_PROXY: PROXY,
  http_proxy: PROXY,
  https_proxy: PROXY,
  NO_PROXY: LOCAL,
  no_proxy: LOCAL,
  NODE_USE_ENV_PROXY: '1',
};

/** A port that the host has bound and sent to this process. */
export interface PortHandle {
  readonly fd: number;
  close(): void;
}

export interface ContainerPlace {
  app: string;
  owner: string;
  /** Directory of its sockets. */
  directory: string;
  addresses: AppAddresses;
  /** Sends a request to the host. @throws {ContainerError} */
  ask: (wanted: ContainerRequest['wanted']) => Promise<PortHandle | undefined>;
  /** Called once, at the first call of `end`. */
  onEnd: () => void;
}

export class Container {
  readonly app: string;
  readonly owner: string;
  readonly #place: ContainerPlace;
  readonly #ended = new AbortController();
  /** Unused connections that the link (`link-program.js`) has offered. */
  readonly #offered: Socket[] = [];
  /** Calls that wait for an offered connection. */
  readonly #waiting = new Set<(socket: Socket) => void>();
  readonly #drop = function drop(this: Socket): void {
    this.destroy();
  };
  #servers: (Server | NetServer)[] = [];
  #ingressPort = 0;
  /** The port on which workerd listens while the object lives; null before workerd has named it. */
  #lifePort: number | null = null;
  /** Resolves when workerd has named `#lifePort`. */
  readonly #hello = Promise.withResolvers<void>();
  #hasInternet = false;
  #state: 'absent' | 'created' | 'running' | 'exited' = 'absent';
  #exit = Promise.withResolvers<number>();
  /** The latest settings that the app asked for. */
  #spec: Spec | null = null;
  #imageText = '';

  constructor(place: ContainerPlace) {
    this.#place = place;
    this.app = place.app;
    this.owner = place.owner;
  }

  /** Starts the servers that connect workerd with the container. No container runs yet. */
  async open(): Promise<void> {
    const { directory, addresses, ask } = this.#place;
    const port = await ask({ do: 'listen', app: this.app });
    rmSync(directory, { recursive: true, force: true });
    mkdirSync(directory, { mode: 0o700 });
    const ingress = createServer((request, response) => void this.#answer(request, response));
    ingress.on('connect', (request: IncomingMessage, client: Duplex, head: Buffer) => {
      client.on('error', () => client.destroy());
      void this.#connect(request, client, head);
    });
    ingress.maxConnections = CONNECTIONS;
    ingress.timeout = 0;
    const offers = createNetServer({ allowHalfOpen: true }, (offer) => this.#take(offer));
    // One more, because the link always offers one unused connection.
    offers.maxConnections = CONNECTIONS + 1;
    const out = egressProxy(addresses, this.owner, () => this.#hasInternet);
    this.#servers = [ingress, offers, out];
    ingress.listen({ fd: port!.fd });
    offers.listen(`${directory}/in`);
    out.listen(`${directory}/out`);
    await Promise.all(this.#servers.map((server) => once(server, 'listening')));
    this.#ingressPort = (ingress.address() as AddressInfo).port;
    void this.#live();
  }

  /** The container's memory limit, in MiB; 0 without a container. */
  get memoryMb(): number {
    return this.#spec?.memoryMb ?? 0;
  }

  /**
   * The image text of its class (see `image-reference.ts`); empty without a container. Set before the container is made, so
   * that limits count it.
   */
  get imageText(): string {
    return this.#spec === null ? '' : this.#imageText;
  }

  get ingressPort(): number {
    return this.#ingressPort;
  }

  /** The state in the words of Docker's API; null without a container. */
  get status(): string | null {
    return this.#state === 'absent' ? null : this.#state;
  }

  /** Makes the container, in place of an earlier one. */
  async create(spec: Spec, imageText: string): Promise<void> {
    const own = new Set(spec.environment.map((variable) => variable.split('=', 1)[0]));
    const proxies = Object.entries(PROXY_VARIABLES).flatMap(([name, value]) =>
      own.has(name) ? [] : [`${name}=${value}`],
    );
    this.#spec = spec;
    this.#imageText = imageText;
    const environment = [...proxies, ...spec.environment];
    await this.#place.ask({ do: 'create', spec: { ...spec, environment } }).catch((error: unknown) => {
      this.#spec = null;
      throw error;
    });
    this.#exit = Promise.withResolvers();
    this.#state = 'created';
  }

  async start(): Promise<void> {
    // Set first, because the container may end before the answer comes.
    this.#state = 'running';
    await this.#place.ask({ do: 'start' }).catch((error: unknown) => {
      this.#state = 'created';
      throw error;
    });
  }

  async signal(signal: number): Promise<void> {
    await this.#place.ask({ do: 'signal', signal });
  }

  /** Resolves with the container's exit code; 137 if it is removed before it ends. */
  get exited(): Promise<number> {
    return this.#exit.promise;
  }

  /** Call it when the host reports that the container has ended. */
  hasExited(code: number): void {
    if (this.#state === 'running') this.#state = 'exited';
    this.#exit.resolve(code);
  }

  /** Removes the container. The servers that connect it stay for the object's next one. */
  async remove(): Promise<void> {
    this.#state = 'absent';
    this.#spec = null;
    await this.#place.ask({ do: 'remove' });
    // The link was removed with the container, so its offers are dead.
    for (const offer of this.#offered) offer.destroy();
    this.#exit.resolve(KILLED);
  }

  /** Removes the container and closes the servers that connect it. */
  async end(): Promise<void> {
    if (this.#ended.signal.aborted) return;
    this.#ended.abort();
    this.#state = 'absent';
    this.#place.onEnd();
    for (const server of this.#servers) if ('closeAllConnections' in server) server.closeAllConnections();
    for (const offer of this.#offered) offer.destroy();
    try {
      await this.#place.ask({ do: 'close' });
    } finally {
      // Last: the firewall no longer opens the port to the app, so another program may now get it.
      for (const server of this.#servers) server.close();
      this.#exit.resolve(KILLED);
      rmSync(this.#place.directory, { recursive: true, force: true });
    }
  }

  /** Answers workerd's HTTP calls to the proxy of a container. */
  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refuse = (status: number, text: string) => response.writeHead(status).end(text);
    try {
      const call = `${request.method} ${request.url}`;
      // HTTPS is not intercepted, so there is no certificate.
      if (call === 'GET /ca') return void refuse(200, '');
      if (call !== 'PUT /egress') return void refuse(404, 'not found');
      const body = await readAtMost(request, MESSAGE_BYTES);
      const { port, dns, internet } = JSON.parse(body?.toString() ?? '') as {
        port: number;
        dns?: { allowHostnames?: string[] };
        internet?: { enabled?: boolean };
      };
      if ((dns?.allowHostnames ?? []).length > 0)
        return void refuse(501, 'this Cellar cannot intercept the outbound traffic of containers');
      if (!Number.isInteger(port) || port < 1 || port > 65_535) return void refuse(400, 'invalid port');
      this.#lifePort = port;
      this.#hello.resolve();
      if (internet !== undefined) this.#hasInternet = internet.enabled === true;
      refuse(200, '');
    } catch {
      refuse(400, 'invalid message');
    }
  }

  /**
   * Removes the container once workerd, or the object, has ended: then `#lifePort` refuses a connection. Also removes it if
   * workerd has not named that port within `HELLO_MS`.
   */
  async #live(): Promise<void> {
    const { signal } = this.#ended;
    await Promise.race([
      this.#hello.promise,
      sleep(HELLO_MS, undefined, { signal, ref: false }).catch(() => {}),
    ]);
    while (!signal.aborted) {
      const isAlive = this.#lifePort !== null && (await untilClosed(this.#lifePort, signal));
      if (!isAlive) return void this.end().catch(() => {});
    }
  }

  /** Answers workerd's CONNECT request: connects it with a port of the container. */
  async #connect(request: IncomingMessage, client: Duplex, head: Buffer): Promise<void> {
    const answer = (status: string) => client.end(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\n\r\n`);
    const port = Number(/:(\d{1,5})$/.exec(String(request.headers['x-dst-addr']))?.[1]);
    if (!(port > 0 && port < 65_536)) return void answer('400 Invalid port');
    try {
      const socket = await this.#offer();
      socket.write(Uint8Array.of(port >> 8, port & 0xff));
      const [first] = await firstByte(socket);
      if (first !== 0x31) return void answer('400 Nothing listens there');
      client.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.write(head);
      join(client, socket);
    } catch {
      answer('503 The container does not answer');
    }
  }

  #take(offer: Socket): void {
    offer.on('error', () => offer.destroy());
    const [taker] = this.#waiting;
    if (taker !== undefined) {
      this.#waiting.delete(taker);
      taker(offer);
      return;
    }
    this.#offered.push(offer);
    // A link sends nothing before it gets a port. An offer that becomes readable has ended.
    offer.once('readable', this.#drop);
    offer.once('close', () => {
      const at = this.#offered.indexOf(offer);
      if (at !== -1) this.#offered.splice(at, 1);
    });
  }

  async #offer(): Promise<Socket> {
    const ready = this.#offered.shift();
    if (ready !== undefined) return ready.off('readable', this.#drop);
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    const late = AbortSignal.any([this.#ended.signal, AbortSignal.timeout(CONNECT_MS)]);
    late.throwIfAborted();
    this.#waiting.add(resolve);
    late.addEventListener('abort', () => {
      this.#waiting.delete(resolve);
      reject(late.reason);
    });
    return promise;
  }
}

/** Returns the settings of a container that an app asks for. Limits that are not numbers get their defaults. */
export function specOf(imageText: string, command: string[] | null, environment: string[]): Spec {
  const { image, memoryMb, cpu } = parseImageText(imageText);
  return { image, memoryMb, cpu, command, environment };
}

/** Connects to a port of workerd, and waits until the connection closes. @returns whether the connection opened */
async function untilClosed(port: number, signal: AbortSignal): Promise<boolean> {
  const socket = connect({ host: '127.0.0.1', port, signal });
  let hasConnected = false;
  socket.on('connect', () => {
    hasConnected = true;
    socket.resume();
  });
  socket.on('error', () => {});
  await new Promise((resolve) => socket.once('close', resolve));
  return hasConnected;
}

async function firstByte(socket: Socket): Promise<Buffer> {
  const timeout = AbortSignal.timeout(CONNECT_MS);
  for (;;) {
    const chunk = socket.read(1) as Buffer | null;
    if (chunk !== null) return chunk;
    if (socket.destroyed || socket.readableEnded) throw new Error('the connection ended');
    await Promise.race([
      once(socket, 'readable', { signal: timeout }),
      once(socket, 'close', { signal: timeout }),
    ]);
  }
}
