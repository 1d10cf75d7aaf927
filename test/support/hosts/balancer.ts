// A load balancer in front of several hosts. It asks each host regularly whether the host is ready, and forwards each
// connection to a random host that is ready.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { fetch } from 'undici';

const LOOPBACK = '127.0.0.1';
const PROBE_EVERY_MS = 500;
/** Timeout of a health check, in ms. It is long, because a ready host may answer late on a busy machine. */
const PROBE_MS = 30_000;

export interface Behind {
  /** Default: loopback. */
  address?: string;
  apiPort: number;
  edgePort: number;
}

type Port = 'apiPort' | 'edgePort';

export class Balancer {
  /** Number of ended health checks of all hosts together. */
  checks = 0;
  readonly #hosts: Map<string, Behind>;
  readonly #ready = new Set<string>();
  /** Names of the hosts with a running health check. A host has only one at a time, so an old answer cannot replace a newer. */
  readonly #asked = new Set<string>();
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #timer: NodeJS.Timeout;

  /** @param hosts by name; may change */
  constructor(hosts: Map<string, Behind>) {
    this.#hosts = hosts;
    this.#timer = setInterval(() => {
      for (const [name, behind] of this.#hosts) {
        if (this.#asked.has(name)) continue;
        this.#asked.add(name);
        void this.#probe(name, behind).finally(() => this.#asked.delete(name));
      }
    }, PROBE_EVERY_MS);
  }

  /** Names of the hosts that get connections. */
  get ready(): string[] {
    return [...this.#ready];
  }

  /** Listens on a port of loopback for the APIs, and on another for the edges. */
  async listen(apiPort: number, edgePort: number): Promise<void> {
    await this.#listen(apiPort, 'apiPort');
    await this.#listen(edgePort, 'edgePort');
  }

  close(): void {
    clearInterval(this.#timer);
    for (const server of this.#servers) server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  async #probe(name: string, { apiPort, address = LOOPBACK }: Behind): Promise<void> {
    const isReady = await fetch(`http://${address}:${apiPort}/ready`, {
      signal: AbortSignal.timeout(PROBE_MS),
    })
      .then(async (answer) => {
        await answer.arrayBuffer();
        return answer.status === 200;
      })
      .catch(() => false);
    if (isReady) this.#ready.add(name);
    else this.#ready.delete(name);
    this.checks++;
  }

  #listen(port: number, to: Port): Promise<void> {
    const server = createServer((client) => this.#join(client, to));
    this.#servers.push(server);
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, LOOPBACK, resolve);
    });
  }

  #join(client: Socket, to: Port): void {
    const names = this.ready;
    const host = this.#hosts.get(names[Math.floor(Math.random() * names.length)] ?? '');
    this.#keep(client);
    if (host === undefined) return void client.destroy();
    const server = this.#keep(connect(host[to], host.address ?? LOOPBACK));
    client.pipe(server);
    server.pipe(client);
    // `destroySoon` sends the bytes that it already has before it closes the connection.
    client.on('close', () => server.destroySoon());
    server.on('close', () => client.destroySoon());
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    return socket.on('error', () => {});
  }
}
