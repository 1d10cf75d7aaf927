// A proxy between one host and the bucket. While it is closed, it discards all bytes, so that connections hang as in a
// cut network.
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

export class Door {
  isOpen = true;
  readonly #server = createServer((client) => this.#join(client));
  readonly #sockets = new Set<Socket>();
  readonly #to: number;

  /** @param to the port of the bucket's server on loopback */
  constructor(to: number) {
    this.#to = to;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Listens at an address of this machine. Resolves when hosts can connect. */
  listen(address: string): Promise<this> {
    return new Promise((resolve) => this.#server.listen(0, address, () => resolve(this)));
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #join(client: Socket): void {
    const server = connect(this.#to, '127.0.0.1');
    for (const [from, to] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(from);
      from.on('error', () => {});
      from.on('data', (bytes) => this.isOpen && to.write(bytes));
      from.on('end', () => this.isOpen && to.end());
      from.on('close', () => {
        this.#sockets.delete(from);
        to.destroy();
      });
    }
  }
}
