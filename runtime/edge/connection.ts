// One client's connection, and the exchanges it carries.
import type { Socket } from 'node:net';
import { plainAddress, type TrustedProxies } from './client.ts';
import type { Exchange } from './forward.ts';
import type { Caller } from './headers.ts';

export class Connection implements Caller {
  readonly socket: Socket;
  readonly peer: string;
  readonly trusted: boolean;
  /** In flight: one, or more when the client pipelines. */
  readonly exchanges = new Set<Exchange>();
  /** Set with the answer that ends the connection: what the client has sent behind that request is not taken. */
  ending = false;
  readonly #proxies: TrustedProxies;

  constructor(socket: Socket, proxies: TrustedProxies) {
    this.socket = socket;
    this.peer = plainAddress(socket.remoteAddress ?? 'unknown');
    this.#proxies = proxies;
    this.trusted = proxies.has(this.peer);
  }

  client(forwardedFor: string | undefined): string {
    return this.#proxies.client(forwardedFor, this.peer);
  }

  /** Tells every exchange that the client has left. */
  closed(): void {
    for (const exchange of [...this.exchanges]) exchange.gone();
  }
}
