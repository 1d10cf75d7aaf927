// Runs the process that relays TCP connections (the relay). It sends them to a socket of the gateway. There `IncomingTcp`
// finds the app by the port.
import { type IncomingOptions, IncomingProgram } from '../apps/incoming-program.ts';
import type { RequestHead, Spans, Target } from '../edge/gateway.ts';
import { headerValue } from '../edge/http/head/fields.ts';
import type { Backend } from '../edge/upstream/backend.ts';
import { CALLER_HEADER, type Caller, type PortRange, type Setup } from './messages.ts';

const PROGRAM = new URL('./program.ts', import.meta.url).pathname;
/** Limit of the relay's writable memory, in bytes. Node alone reserves 560 MiB of it. */
const MEMORY_BYTES = 2 * 2 ** 30;
/** Limit of the relay's JavaScript heap, in MiB. */
const HEAP_MB = 512;

const NO_APP: Target = {
  kind: 'respond',
  respond: () => ({
    refusal: { status: 404, code: 'tcp_port_not_found', detail: 'No app has this port.' },
  }),
};

export interface IncomingTcpOptions extends IncomingOptions {
  ports: PortRange;
}

export class IncomingTcp {
  readonly #options: IncomingTcpOptions;
  readonly #program: IncomingProgram;

  constructor(options: IncomingTcpOptions) {
    this.#options = options;
    const { ports, isLocal } = options;
    this.#program = new IncomingProgram(options, {
      id: 'tcp-relay',
      name: 'relay of TCP connections',
      program: PROGRAM,
      memoryBytes: MEMORY_BYTES,
      heapMb: HEAP_MB,
      setup: (): Setup => ({ type: 'setup', ports, isLocal, socket: this.#program.socket }),
      resolve: (head, spans) => this.#resolve(head, spans),
    });
  }

  /** The relay's process id; null while it does not run. */
  get pid(): number | null {
    return this.#program.pid;
  }

  /**
   * Starts the relay, and restarts it whenever it ends, until `close`. Resolves when it listens.
   * @throws {Error} when the first process does not listen; it is restarted all the same
   */
  start(): Promise<void> {
    return this.#program.start(null);
  }

  /** Ends the relay and all its connections. */
  close(): Promise<void> {
    return this.#program.close();
  }

  #resolve({ headers }: RequestHead, { spanId }: Spans): Target {
    const {
      port,
      remote = '',
      local,
    } = JSON.parse(headerValue(headers, CALLER_HEADER) ?? '{}') as Partial<Caller>;
    const backend = port === undefined ? null : this.#backendOf(port);
    if (backend === null) return NO_APP;
    // The client's address, without the port and the brackets of IPv6.
    const client = remote.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
    // `endsItself: false`: when a deploy replaces the app's process, the connection is closed, like a WebSocket.
    const to = { backend, client, endsItself: false };
    return this.#program.call({ kind: 'tcp', remote, local }, to, spanId);
  }

  /** Returns the app that has a port, on this host or another; null when no app has it. */
  #backendOf(port: number): Backend | null {
    const { hosts } = this.#options;
    const app = this.#options.apps().ofPort(port);
    if (app !== undefined) return app.fleetFor([]);
    const route = hosts?.homes.ofPort(port);
    return route === undefined ? null : hosts!.called(route.id);
  }
}
