// A program that receives e-mails or TCP connections for apps. It calls the apps at a socket of the gateway.
import { join } from 'node:path';
import type { Layout } from '../disk/data-directory.ts';
import type { Gateway, Resolve, Target } from '../edge/gateway.ts';
import { asciiJson } from '../edge/http/body/ascii-json.ts';
import { HOP_DEPTH } from '../edge/http/head/hop-names.ts';
import { CALL_HEADER } from '../edge/http/head/service-headers.ts';
import type { Call } from '../edge/target.ts';
import type { Backend } from '../edge/upstream/backend.ts';
import type { CallDepths } from '../hosts/call-depths.ts';
import type { Hosts } from '../hosts/hosts.ts';
import { KeptProgram, type KeptProgramOptions } from '../isolation/kept-program.ts';
import { giveSocket, makeTraversable } from '../isolation/rights.ts';
import type { User } from '../isolation/users.ts';
import type { BoundSocket } from '../sockets/bound-socket.ts';
import type { KnownApps } from './known/known-apps.ts';

export interface IncomingOptions {
  /** Whether it listens on this machine only. */
  isLocal: boolean;
  paths: Layout;
  users: (id: string) => { cell: User | null };
  gateway: () => Gateway;
  apps: () => KnownApps;
  /** Null in a Cellar of one host. */
  hosts: Hosts | null;
  depths: CallDepths;
}

interface ProgramOptions extends Omit<KeptProgramOptions<never>, 'user'> {
  /** The id under which it gets its user and its directory, like an app's id. */
  id: string;
  /** Routes its requests. */
  resolve: Resolve;
}

export class IncomingProgram extends KeptProgram {
  /** Path of the gateway's socket at which the program calls apps. */
  readonly socket: string;
  readonly #depths: CallDepths;
  readonly #listen: () => Promise<() => void>;
  #endService: () => void = () => {};

  constructor(options: IncomingOptions, { id, resolve, ...program }: ProgramOptions) {
    const { paths, users, gateway, depths } = options;
    super({ ...program, user: () => users(id).cell });
    this.socket = join(paths.run(id), 'apps.sock');
    this.#depths = depths;
    this.#listen = async () => {
      const { cell } = users(id);
      makeTraversable(paths.run(id), cell);
      const end = await gateway().listenService(this.socket, resolve);
      giveSocket(this.socket, cell);
      return end;
    };
  }

  override async start(listening: BoundSocket | null): Promise<void> {
    this.#endService = await this.#listen();
    await super.start(listening);
  }

  override async close(): Promise<void> {
    await super.close();
    this.#endService();
  }

  /**
   * Returns the target of a call that brings an event to an app's entry module. @param spanId of the program's request
   */
  call(
    event: object,
    to: Pick<Call, 'endsItself' | 'client'> & { backend: Backend },
    spanId: string,
  ): Target {
    const { backend, ...how } = to;
    const lines = `${CALL_HEADER}: ${asciiJson(event)}\r\n`;
    const ended = this.#depths.begin(spanId, 1);
    return {
      kind: 'proxy',
      backend,
      limits: { site: backend.site, clientRpm: 0, appRpm: 0 },
      call: { socketName: 'exports', lines, hopLines: `${HOP_DEPTH}: 1\r\n`, ended, ...how },
    };
  }
}
