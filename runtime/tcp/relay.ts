// Accepts or refuses TCP connections. Each visitor and each port has a share, so that neither can use up all connections.
import type { Socket } from 'node:net';
import { visitorOf } from '../edge/limits/networks.ts';
import { Limiter } from '../edge/limits/rate-limits.ts';
import { reset } from '../sockets/gateway-socket.ts';
import { Connection } from './connection.ts';

/** Most open connections in total. */
const CONNECTIONS = 1_000;
/** Most open connections of one port. */
const CONNECTIONS_OF_PORT = 250;
/** Most open connections of one visitor. */
const CONNECTIONS_OF_VISITOR = 100;
/** Most new connections of one visitor in a minute. */
const VISITOR_RPM = 300;
/** Most new connections to one port in a minute. */
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

  /** @param socket path of the gateway's socket that leads to the apps */
  constructor(socket: string) {
    this.#socket = socket;
  }

  /** Passes a connection on to the app, or resets it when a limit is reached. @param client paused */
  take(client: Socket, port: number): void {
    const { remoteAddress } = client;
    client.on('error', () => {});
    // The client has left already.
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

  /** At a limit, ends another connection for the newcomer. Returns false when the newcomer already has its share. */
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
 * Groups connections by visitor or by port, and returns the largest group.
 * @param keyOf returns a connection's visitor or port
 * @param newcomer if its own group would become as large as the largest, null is returned
 */
function greediest(all: Open[], keyOf: (open: Open) => number | string, newcomer?: Open): Open[] | null {
  const groups = Map.groupBy(all, keyOf);
  const most = [...groups.values()].reduce((a, b) => (b.length > a.length ? b : a));
  const of = newcomer === undefined ? [] : (groups.get(keyOf(newcomer)) ?? []);
  return newcomer !== undefined && most.length <= of.length + 1 ? null : most;
}
