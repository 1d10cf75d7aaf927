// Runs the bucket proxy. Processes of apps and the bucket service reach the bucket only through it, because they lack the
// bucket's keys. The host keeps the listening socket, so requests wait during a restart.
import { getCACertificates } from 'node:tls';
import { KeptProgram } from '../../isolation/kept-program.ts';
import type { User } from '../../isolation/users.ts';
import { type BoundSocket, bindSocket } from '../../sockets/bound-socket.ts';
import type { Counts, Report, Setup } from './messages.ts';
import { noCounts } from './reports.ts';

const PROGRAM = new URL('./program.ts', import.meta.url).pathname;
/** Limit of the process's data segment (RLIMIT_DATA), in bytes. Node reserves 560 MiB of it. */
const MEMORY_BYTES = 2 * 2 ** 30;
/** Limit of Node's heap, in MiB. */
const HEAP_MB = 256;

export interface BucketProxyOptions extends Omit<Setup, 'authorities'> {
  /** Default: any free port. */
  port?: number;
  /** Returns the user that runs the proxy; null for the host's own user. */
  user: () => User | null;
  /** Called at most once a second for each app that used the bucket, with totals since this object was made. */
  onCounts: (appId: string, counts: Counts) => void;
  /** Called with the reason when the store no longer answers, and with null when it answers again. */
  onAway: (reason: string | null) => void;
}

export class BucketProxy {
  readonly #options: BucketProxyOptions;
  readonly #totals = new Map<string, Counts>();
  readonly #program: KeptProgram<Report>;
  #socket: BoundSocket | null = null;
  #isAway = false;

  constructor(options: BucketProxyOptions) {
    this.#options = options;
    const { user, place, clusterKey } = options;
    this.#program = new KeptProgram<Report>({
      name: 'bucket proxy',
      program: PROGRAM,
      user,
      memoryBytes: MEMORY_BYTES,
      heapMb: HEAP_MB,
      setup: (): Setup => ({ place, clusterKey, authorities: getCACertificates('extra') }),
      onMessage: (report) => this.#hear(report),
    });
  }

  /** The id of the proxy's process; null while none runs. */
  get pid(): number | null {
    return this.#program.pid;
  }

  /**
   * Makes the socket, on 127.0.0.1.
   * @returns its port
   * @throws {Error} when the port cannot be bound
   */
  listen(): number {
    this.#socket ??= bindSocket(this.#options.port ?? 0, '127.0.0.1');
    return this.#socket.port;
  }

  /**
   * Starts the process, and starts it again whenever it ends, until `close`. Resolves when it listens.
   * @throws {Error} when the first process does not listen; it is started again nevertheless
   */
  async start(): Promise<void> {
    this.listen();
    await this.#program.start(this.#socket!);
  }

  /** Call it when the store answers the host. The proxy's next failure is then reported again. */
  storeIsBack(): void {
    this.#isAway = false;
  }

  /** Ends the process and all requests. */
  async close(): Promise<void> {
    await this.#program.close();
    this.#socket?.handle.close();
    this.#socket = null;
  }

  #hear(report: Exclude<Report, { type: 'listening' }>): void {
    if (report.type === 'away') {
      this.#tellAway(report.reason);
      return;
    }
    for (const [appId, counts] of report.apps) {
      const totals = this.#totals.get(appId) ?? noCounts();
      for (const name of Object.keys(totals) as (keyof Counts)[]) totals[name] += counts[name];
      this.#totals.set(appId, totals);
      this.#options.onCounts(appId, { ...totals });
    }
  }

  #tellAway(why: string | null): void {
    if (this.#isAway === (why !== null)) return;
    this.#isAway = why !== null;
    this.#options.onAway(why);
  }
}
