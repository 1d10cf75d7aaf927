// Decides which connections are taken: each visitor and each port has a share, so that none can take the places of all.
import type { Socket } from 'node:net';
import { visitorOf } from '../edge/limits/networks.ts';
import { Limiter } from '../edge/limits/rate-limits.ts';
import { Connection } from './connection.ts';

/** Most open connections: of the machine, of one port, and of one visitor. */
const CONNECTIONS = 1_000;
const CONNECTIONS_OF_PORT = 250;
const CONNECTIONS_OF_VISITOR = 100;
/** Most new connections in a minute: of one visitor, and of one port. */
const VISITOR_RPM = 300;
const PORT_RPM = 3_000;

export class Relay {
  readonly #socket: string;
  readonly #limiter = new Limiter();
  /** Open connections, by visitor and by port. */
  readonly #open = new Map<number | string, number>();
  #count = 0;

  /** @param socket the host's, which leads to the apps */
  constructor(socket: string) {
    this.#socket = socket;
  }

  /** Passes a connection on, or resets it. @param client paused */
  take(client: Socket, port: number): void {
    const { remoteAddress } = client;
    client.on('error', () => {});
    // The client has left already.
    if (remoteAddress === undefined) {
      client.destroy();
      return;
    }
    const visitor = `visitor ${visitorOf(remoteAddress)}`;
    const shares: [string, number][] = [
      [visitor, CONNECTIONS_OF_VISITOR],
      [`port ${port}`, CONNECTIONS_OF_PORT],
    ];
    const limits = { site: String(port), clientRpm: VISITOR_RPM, appRpm: PORT_RPM };
    const isFull =
      this.#count >= CONNECTIONS || shares.some(([share, most]) => (this.#open.get(share) ?? 0) >= most);
    if (isFull || this.#limiter.admit(limits, remoteAddress, performance.now()) > 0) {
      client.resetAndDestroy();
      return;
    }
    this.#count++;
    for (const [share] of shares) this.#open.set(share, (this.#open.get(share) ?? 0) + 1);
    client.once('close', () => {
      this.#count--;
      for (const [share] of shares) {
        const left = this.#open.get(share)! - 1;
        if (left === 0) this.#open.delete(share);
        else this.#open.set(share, left);
      }
    });
    new Connection(client, port, this.#socket);
  }
}
