// A load balancer in front of several hosts, as their users have one: it asks each host whether it is ready, and gives each
// connection to one that is.
import { connect, createServer, type Server, type Socket } from 'node:net';
import { fetch } from 'undici';

const PROBE_EVERY_MS = 500;
const PROBE_MS = 1_000;

/** Where a host listens on loopback. */
export interface Behind {
  apiPort: number;
  edgePort: number;
}

export class Balancer {
  readonly #hosts: Map<string, Behind>;
  readonly #ready = new Set<string>();
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #timer: NodeJS.Timeout;

  /** @param hosts by name; may change */
  constructor(hosts: Map<string, Behind>) {
    this.#hosts = hosts;
    this.#timer = setInterval(() => {
      for (const [name, { apiPort }] of this.#hosts) void this.#probe(name, apiPort);
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

  async #probe(name: string, port: number): Promise<void> {
    const isReady = await fetch(`http://127.0.0.1:${port}/ready`, { signal: AbortSignal.timeout(PROBE_MS) })
      .then(async (answer) => {
        await answer.arrayBuffer();
        return answer.status === 200;
      })
      .catch(() => false);
    if (isReady) this.#ready.add(name);
    else this.#ready.delete(name);
  }

  #listen(port: number, to: keyof Behind): Promise<void> {
    const server = createServer((client) => this.#join(client, to));
    this.#servers.push(server);
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, '127.0.0.1', resolve);
    });
  }

  #join(client: Socket, to: keyof Behind): void {
    const names = this.ready;
    const host = this.#hosts.get(names[Math.floor(Math.random() * names.length)] ?? '');
    this.#keep(client);
    if (host === undefined) return void client.destroy();
    const server = this.#keep(connect(host[to], '127.0.0.1'));
    client.pipe(server);
    server.pipe(client);
    // What was received is passed on before.
    client.on('close', () => server.destroySoon());
    server.on('close', () => client.destroySoon());
  }

  #keep(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.on('close', () => this.#sockets.delete(socket));
    return socket.on('error', () => {});
  }
}
