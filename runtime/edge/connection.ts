// One client's connection, and the exchanges it carries.
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { plainAddress, type TrustedProxies } from './client.ts';
import type { Exchange } from './forward.ts';
import type { Caller } from './headers.ts';

/** How long a body may stand still, in either direction, before its client is given up, in ms. */
const BODY_IDLE_MS = 120_000;
/** How long the rest of an unwanted body is read and dropped after its answer, in ms. */
const LINGER_MS = 2_000;

export class Connection implements Caller {
  readonly socket: Socket;
  readonly peer: string;
  readonly trusted: boolean;
  /** In flight: one, or more when the client pipelines. */
  readonly exchanges = new Set<Exchange>();
  /** Set with the answer that ends the connection: what the client has sent behind that request is not taken. */
  ending = false;
  readonly #proxies: TrustedProxies;

  /** @param own whether it came by a unix socket of the host's own, on which only a proxy of ours calls */
  constructor(socket: Socket, proxies: TrustedProxies, own: boolean) {
    this.socket = socket;
    this.peer = own ? '127.0.0.1' : plainAddress(socket.remoteAddress ?? 'unknown');
    this.#proxies = proxies;
    this.trusted = own || proxies.has(this.peer);
  }

  client(forwardedFor: string | undefined): string {
    return this.#proxies.client(forwardedFor, this.peer);
  }

  /** From now on the connection is cut when no byte moves for a while: a body is under way. */
  limitIdle(): void {
    this.socket.setTimeout(BODY_IDLE_MS);
  }

  /** Whether what it carries stands still because a process does not read or answer, not because of the client. */
  waitsForProcess(): boolean {
    if (this.exchanges.size === 0) return false;
    for (const exchange of this.exchanges) if (exchange.waitsForClient) return false;
    return true;
  }

  allowIdle(): void {
    this.socket.setTimeout(0);
  }

  /**
   * Makes the end of the connection a slow one, for a request that is still arriving when its answer is done: what
   * arrives is dropped for a while, because closing with unread bytes resets the connection and may cost the client
   * the answer.
   */
  linger(request: IncomingMessage): void {
    const { socket } = this;
    socket.destroySoon = () => {
      request.resume();
      socket.end();
      const timer = setTimeout(() => socket.destroy(), LINGER_MS);
      socket.once('close', () => clearTimeout(timer));
    };
  }

  /** Tells every exchange that the client has left. */
  closed(): void {
    for (const exchange of [...this.exchanges]) exchange.gone();
  }
}
