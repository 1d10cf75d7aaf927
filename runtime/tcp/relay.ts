// Accepts or refuses TCP connections. Each visitor and each port has a limit, so that none of them uses up all connections.
import type { Socket } from 'node:net';
import { visitorOf } from '../edge/limits/networks.ts';
import { Limiter } from '../edge/limits/rate-limits.ts';
import { reset } from '../sockets/gateway-socket.ts';
import { Connection } from './connection.ts';

/** Maximum open connections in total. */
const CONNECTIONS = 1_000;
/** Maximum open connections of one port. */
const CONNECTIONS_OF_PORT = 250;
/** Maximum open connections of one visitor: an IPv4 address or an IPv6 /64. */
const CONNECTIONS_OF_VISITOR = 100;
/** Maximum new connections of one visitor to one port in a minute. */
const VISITOR_RPM = 300;
/** Maximum new connections to one port in a minute. */
const PORT_RPM = 3_000;

interface Open {
  client: Socket;
  port: number;
  visitor: number | string;
}

export class Relay {
  readonly #socket: string;
  readonly #limiter = new Limiter();
  /** Open connections, the oldest first. */
  readonly #open = new Set<Open>();

  /** @param socket path of the gateway's socket, which forwards to the apps */
  constructor(socket: string) {
    this.#socket = socket;
  }

  /** Passes a connection on to the app, or resets it when a limit is reached. @param client paused */
  take(client: Socket, port: number): void {
    const { remoteAddress } = client;
    client.on('error', () => {});
    // Node knows no address once the client has disconnected.
    if (remoteAddress === undefined) {
      client.destroy();
      return;
    }
    const limits = { site: String(port), clientRpm: VISITOR_RPM, appRpm: PORT_RPM };
    const own = { client, port, visitor: visitorOf(remoteAddress) };
    if (this.#limiter.admit(limits, remoteAddress, performance.now()) > 0 || !this.#makeRoom(own)) {
      reset(client);
      return;
    }
    this.#open.add(own);
    client.once('close', () => this.#open.delete(own));
    new Connection(client, port, this.#socket);
  }

  /**
   * Returns whether one more connection may be opened. At the limit of a port, resets a connection of the visitor with the
   * most connections to that port. At the total limit, resets a connection of the port with the most. Returns false at the
   * limit of a visitor, and if the newcomer's own visitor or port would have the most.
   */
  #makeRoom(newcomer: Open): boolean {
    const all = [...this.#open];
    if (all.filter(({ visitor }) => visitor === newcomer.visitor).length >= CONNECTIONS_OF_VISITOR)
      return false;
    const ofPort = all.filter(({ port }) => port === newcomer.port);
    if (ofPort.length >= CONNECTIONS_OF_PORT) {
      const ofGreediest = greediest(ofPort, ({ visitor }) => visitor, newcomer);
      return ofGreediest !== null && this.#end(ofGreediest[0]!);
    }
    if (all.length < CONNECTIONS) return true;
    const ofBusiest = greediest(all, ({ port }) => port, newcomer);
    return ofBusiest !== null && this.#end(greediest(ofBusiest, ({ visitor }) => visitor)![0]!);
  }

  #end(open: Open): true {
    this.#open.delete(open);
    reset(open.client);
    return true;
  }
}

/**
 * Groups connections by visitor or by port, and returns the largest group. Returns null if the newcomer's group would be
 * as large with the newcomer.
 * @param keyOf returns a connection's visitor or port
 */
function greediest(all: Open[], keyOf: (open: Open) => number | string, newcomer?: Open): Open[] | null {
  const groups = Map.groupBy(all, keyOf);
  const most = [...groups.values()].reduce((a, b) => (b.length > a.length ? b : a));
  const of = newcomer === undefined ? [] : (groups.get(keyOf(newcomer)) ?? []);
  return newcomer !== undefined && most.length <= of.length + 1 ? null : most;
}
