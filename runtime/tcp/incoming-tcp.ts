// Runs the relay of TCP connections, and shows it the way to the apps: a socket of the gateway that knows whose port it is.
import { chmodSync, chownSync } from 'node:fs';
import { join } from 'node:path';
import type { KnownApps } from '../apps/known/known-apps.ts';
import type { Layout } from '../disk/data-directory.ts';
import type { Gateway, RequestHead, Spans, Target } from '../edge/gateway.ts';
import { asciiJson } from '../edge/http/body/ascii-json.ts';
import { headerValue } from '../edge/http/head/fields.ts';
import { HOP_DEPTH } from '../edge/http/head/hop-names.ts';
import { CALL_HEADER } from '../edge/http/head/service-headers.ts';
import type { Backend } from '../edge/upstream/backend.ts';
import type { CallDepths } from '../hosts/call-depths.ts';
import type { Hosts } from '../hosts/hosts.ts';
import { KeptProgram } from '../isolation/kept-program.ts';
import { makeTraversable } from '../isolation/rights.ts';
import type { User } from '../isolation/users.ts';
import { CALLER_HEADER, type Caller, type PortRange, type Setup } from './messages.ts';

const PROGRAM = new URL('./program.ts', import.meta.url).pathname;
/** The id under which it gets its user and its directory, like an app's id. */
const ID = 'tcp-relay';
/** Memory limits. Node reserves 560 MiB of the first. */
const MEMORY_BYTES = 2 * 2 ** 30;
const HEAP_MB = 512;

const NO_APP: Target = {
  kind: 'respond',
  respond: () => ({
    refusal: { status: 404, code: 'tcp_port_not_found', detail: 'No app has this port.' },
  }),
};

export interface IncomingTcpOptions {
  ports: PortRange;
  /** Whether it listens on this machine only. */
  isLocal: boolean;
  paths: Layout;
  users: (id: string) => { cell: User | null };
  gateway: () => Gateway;
  apps: () => KnownApps;
  /** Null for the only host. */
  hosts: Hosts | null;
  depths: CallDepths;
}

export class IncomingTcp {
  readonly #options: IncomingTcpOptions;
  readonly #program: KeptProgram;
  #endService: () => void = () => {};

  constructor(options: IncomingTcpOptions) {
    this.#options = options;
    const { ports, isLocal } = options;
    this.#program = new KeptProgram({
      name: 'relay of TCP connections',
      program: PROGRAM,
      user: () => options.users(ID).cell,
      memoryBytes: MEMORY_BYTES,
      heapMb: HEAP_MB,
      setup: (): Setup => ({ type: 'setup', ports, isLocal, socket: this.#socket }),
    });
  }

  /** The process id, while it runs. */
  get pid(): number | null {
    return this.#program.pid;
  }

  /**
   * Starts the process, and starts it again whenever it ends, until `close`. Resolves when it listens.
   * @throws {Error} when the process ends, which is tried again
   */
  async start(): Promise<void> {
    const { paths, users, gateway } = this.#options;
    const { cell } = users(ID);
    makeTraversable(paths.run(ID), cell);
    this.#endService = await gateway().listenService(this.#socket, (head, spans) =>
      this.#resolve(head, spans),
    );
    if (cell !== null) chownSync(this.#socket, cell.uid, cell.gid);
    chmodSync(this.#socket, 0o600);
    await this.#program.start(null);
  }

  /** Ends the process and all its connections. */
  async close(): Promise<void> {
    await this.#program.close();
    this.#endService();
  }

  get #socket(): string {
    return join(this.#options.paths.run(ID), 'tcp.sock');
  }

  #resolve({ headers }: RequestHead, { spanId }: Spans): Target {
    const {
      port,
      remote = '',
      local,
    } = JSON.parse(headerValue(headers, CALLER_HEADER) ?? '{}') as Partial<Caller>;
    const backend = port === undefined ? null : this.#backendOf(port);
    if (backend === null) return NO_APP;
    const { depths } = this.#options;
    const forget = depths.begin(spanId, 1);
    return {
      kind: 'proxy',
      backend,
      limits: { site: backend.site, clientRpm: 0, appRpm: 0 },
      call: {
        socketName: 'exports',
        lines: `${CALL_HEADER}: ${asciiJson({ kind: 'tcp', remote, local })}\r\n`,
        hopLines: `${HOP_DEPTH}: 1\r\n`,
        // A deploy closes it like a WebSocket.
        endsItself: false,
        // Without the port, and without the brackets of IPv6.
        client: remote.replace(/:\d+$/, '').replace(/^\[|\]$/g, ''),
        ended: forget,
      },
    };
  }

  /** Returns the app at any host that has a port. */
  #backendOf(port: number): Backend | null {
    const { hosts } = this.#options;
    const app = this.#options.apps().ofPort(port);
    if (app !== undefined) return app.fleetFor([]);
    const route = hosts?.homes.ofPort(port);
    return route === undefined ? null : hosts!.called(route.id);
  }
}
