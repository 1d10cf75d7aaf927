// Runs the bucket proxy. Besides the host, only this process has the bucket's keys. The host keeps the listening socket, so
// requests wait during a restart.
import { setTimeout as sleep } from 'node:timers/promises';
import { getCACertificates } from 'node:tls';
import { startOwnProgram } from '../../isolation/own-program.ts';
import type { User } from '../../isolation/users.ts';
import { log, reason } from '../../log.ts';
import { Backoff } from '../../processes/backoff.ts';
import { type Child, cleanEnvironment } from '../../processes/child.ts';
import { type BoundSocket, bindSocket, sendable } from '../../sockets/bound-socket.ts';
import type { Counts, Report, Setup } from './messages.ts';
import { noCounts } from './reports.ts';

const PROGRAM = new URL('./program.ts', import.meta.url).pathname;
/** Memory limits. Node reserves 560 MiB of the first. */
const MEMORY_BYTES = 2 * 2 ** 30;
const HEAP_MB = 256;
/** Maximum restart delay, in ms. It is short, because all apps wait. */
const LONGEST_DELAY_MS = 5_000;
/** Longest start, in ms. It takes about 200. */
const START_MS = 10_000;

export interface BucketProxyOptions extends Omit<Setup, 'authorities'> {
  /** Default: any free port. */
  port?: number;
  /** The user that runs it; `null`: the host's own user. */
  user: () => User | null;
  /** Called at most once a second for an app that has used the bucket, with its totals since this object was made. */
  onCounts: (appId: string, counts: Counts) => void;
  /** Called when the store no longer answers, with the reason, and with null once it does. */
  onAway: (reason: string | null) => void;
}

export class BucketProxy {
  readonly #options: BucketProxyOptions;
  readonly #totals = new Map<string, Counts>();
  readonly #backoff = new Backoff();
  readonly #closing = new AbortController();
  #socket: BoundSocket | null = null;
  #child: Child | null = null;
  #isAway = false;

  constructor(options: BucketProxyOptions) {
    this.#options = options;
  }

  /** The process id, while it runs. */
  get pid(): number | null {
    return this.#child?.pid ?? null;
  }

  /**
   * Makes the socket, on 127.0.0.1.
   * @returns its port
   * @throws {Error} when the port cannot be had
   */
  listen(): number {
    this.#socket ??= bindSocket(this.#options.port ?? 0, '127.0.0.1');
    return this.#socket.port;
  }

  /**
   * Starts the process, and starts it again whenever it ends, until `close`. Resolves when it listens.
   * @throws {Error} when the first one does not; others follow
   */
  async start(): Promise<void> {
    this.listen();
    await this.#start();
  }

  /** Call it when the store answers the host. The proxy's next failure is then reported again. */
  storeIsBack(): void {
    this.#isAway = false;
  }

  /** Ends the process and all requests. */
  async close(): Promise<void> {
    this.#closing.abort();
    const child = this.#child;
    child?.end();
    await child?.exited;
    this.#socket?.handle.close();
    this.#socket = null;
  }

  async #start(): Promise<void> {
    const from = performance.now();
    let child: Child;
    try {
      child = await this.#spawn();
    } catch (error) {
      void this.#again(reason(error), 0);
      throw error;
    }
    const listening = new Promise<void>((resolve) => {
      child.process.on('message', (report: Report) => {
        if (report.type === 'listening') resolve();
        else this.#hear(report);
      });
    });
    const ended = child.exited.then(({ code, killedBy }) => {
      child.end();
      this.#child = null;
      const how = killedBy ?? `exit code ${code}`;
      void this.#again(how, performance.now() - from);
      return `it ended (${how})`;
    });
    const { place, clusterKey } = this.#options;
    const setup: Setup = { place, clusterKey, authorities: getCACertificates('extra') };
    child.process.send(setup, sendable(this.#socket!));
    const late = sleep(START_MS, `it does not listen after ${START_MS / 1000} s`, { ref: false });
    const failure = await Promise.race([listening, ended, late]);
    if (failure === undefined) return;
    child.end();
    throw new Error(`the bucket proxy did not start: ${failure}`);
  }

  async #spawn(): Promise<Child> {
    const child = await startOwnProgram({
      name: 'bucket proxy',
      program: PROGRAM,
      user: this.#options.user(),
      memoryBytes: MEMORY_BYTES,
      heapMb: HEAP_MB,
      environment: cleanEnvironment(),
    });
    if (this.#closing.signal.aborted) {
      child.end();
      throw new Error('the bucket proxy is closed');
    }
    this.#child = child;
    return child;
  }

  async #again(how: string, livedMs: number): Promise<void> {
    const { signal } = this.#closing;
    if (signal.aborted) return;
    const delayMs = Math.min(this.#backoff.next(livedMs).delayMs, LONGEST_DELAY_MS);
    log('error', 'the bucket proxy ended and is started again', { how, delay_ms: delayMs });
    await sleep(delayMs, undefined, { signal }).catch(() => {});
    if (signal.aborted) return;
    await this.#start().catch((error: unknown) =>
      log('error', 'the bucket proxy does not serve', { error: reason(error) }),
    );
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
