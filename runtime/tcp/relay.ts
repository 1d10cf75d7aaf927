// Decides which connections are taken: each visitor and each port has a share, so that none can take the places of all.
import type { Socket } from 'node:net';
import { visitorOf } from '../edge/limits/networks.ts';
import { Limiter } from '../edge/limits/rate-limits.ts';
import { reset } from '../sockets/gateway-socket.ts';
import { Connection } from './connection.ts';

/** Most open connections: of the machine, of one port, and of one visitor. */
const CONNECTIONS = 1_000;
const CONNECTIONS_OF_PORT = 250;
const CONNECTIONS_OF_VISITOR = 100;
/** Most new connections in a minute: of one visitor, and of one port. */
const VISITOR_RPM = 300;
const PORT_RPM = 3_000;

interface Open {
  client: Socket;
  port: number;
  visitor: number | string;
}

export class Relay {
  readonly #socket: string;
  readonly #limiter = new Limiter();
  /** The oldest first. */
  readonly #open = new Set<Open>();

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

  /** Makes room for a newcomer, at a limit by ending another connection. Returns false when the newcomer has its share already. */
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
 * Returns the connections of the visitor, or the port, that has most.
 * @param keyOf its visitor or its port
 * @param newcomer null is returned when its visitor or port would then have as many
 */
function greediest(all: Open[], keyOf: (open: Open) => number | string, newcomer?: Open): Open[] | null {
  const groups = Map.groupBy(all, keyOf);
  const most = [...groups.values()].reduce((a, b) => (b.length > a.length ? b : a));
  const of = newcomer === undefined ? [] : (groups.get(keyOf(newcomer)) ?? []);
  return newcomer !== undefined && most.length <= of.length + 1 ? null : most;
}
