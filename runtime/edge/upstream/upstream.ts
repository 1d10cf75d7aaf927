// One process, or one other host, that takes requests: its connection pool, and a count of the requests in flight, so that
// a drain sees every request.

import type { Refusal } from '../refusals.ts';
import { Queue } from './queue.ts';
import { type AnswerReader, type UpstreamAddress, UpstreamConnection } from './upstream-connection.ts';

/** How often idle connections are checked, in ms. */
const IDLE_CHECK_MS = 1_000;
/** Checks after which an idle connection is closed: before workerd closes it, after 15 seconds. */
const IDLE_CHECKS = 6;

/**
 * Maximum number of recent unanswered requests of a process. With many hundreds, workerd serves a few connections over
 * and over and starves the others for seconds. Further requests wait in `#queue`, in the order of arrival.
 */
const RECENT_MAX = 32;
/** A request unanswered for longer than this, in ms, no longer counts against `RECENT_MAX`. */
const RECENT_MS = 5;

/** An upgraded connection, as a drain sees it. */
export interface TrackedTunnel {
  /** Closes it gracefully: a WebSocket's client gets a close frame with 1012, service restart. */
  close(): void;
  /** Closes it at once. */
  destroy(): void;
}

interface Started {
  /** When the process was ready, on the clock of `performance.now()`. */
  readyAt: number;
  /** How long the process's start took, in ms. */
  startMs: number;
  /** The release of an app that the process runs. */
  release?: string | null;
}

export class Upstream {
  readonly readyAt: number;
  readonly startMs: number;
  /** The release of an app that the process runs; null for another host, and for a process without releases. */
  readonly release: string | null;
  readonly #address: UpstreamAddress;
  readonly #socketAddresses: Record<string, UpstreamAddress>;
  /** All connections without tunnels. */
  readonly #connections = new Set<UpstreamConnection>();
  /** Idle connections. The most recently used one is reused first. */
  readonly #idle: UpstreamConnection[] = [];
  #idleTimer: NodeJS.Timeout | null = null;
  /** Connections whose requests were sent recently and are unanswered, oldest first. */
  readonly #recent = new Queue<UpstreamConnection>();
  /** Requests that wait for a connection, oldest first. */
  readonly #queue = new Set<AnswerReader>();
  #agingTimer: NodeJS.Timeout | null = null;
  #destroyed = false;
  #active = 0;
  readonly #tunnels = new Set<TrackedTunnel>();
  #onIdle: (() => void) | null = null;
  #drained: Promise<{ cut: number }> | null = null;
  /** The refusal of unanswered requests when the process ends; null for the default one. */
  refusal: Refusal | null = null;

  /**
   * @param started left out for another host, and for a process that always runs
   * @param sockets additional listening sockets of the process, by name
   */
  constructor(
    address: UpstreamAddress,
    started: Started = { readyAt: 0, startMs: 0 },
    sockets: Record<string, UpstreamAddress> = {},
  ) {
    this.#socketAddresses = sockets;
    this.#address = address;
    this.readyAt = started.readyAt;
    this.startMs = started.startMs;
    this.release = started.release ?? null;
  }

  /** Whether the process has a listening socket of that name; null is the default one. */
  hasSocket(socketName: string | null): boolean {
    return socketName === null || Object.hasOwn(this.#socketAddresses, socketName);
  }

  /** Requests in flight, without tunnels. */
  get active(): number {
    return this.#active;
  }

  /** Open upgraded connections. */
  get tunnels(): number {
    return this.#tunnels.size;
  }

  /** Counts a request in flight. Returns a function to call when the request has ended. */
  begin(): () => void {
    this.#active++;
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#active--;
      this.#settle();
    };
  }

  /** Counts an upgraded connection. Returns a function to call when it has ended. */
  track(tunnel: TrackedTunnel): () => void {
    this.#tunnels.add(tunnel);
    if (this.#drained !== null) tunnel.close();
    return () => {
      if (this.#tunnels.delete(tunnel)) this.#settle();
    };
  }

  /**
   * Closes tunnels gracefully and waits up to `graceMs` for requests in flight. Destroys the rest and returns their number.
   * Route no request here after the call. A second call returns the first promise.
   */
  drain(graceMs: number): Promise<{ cut: number }> {
    this.#drained ??= this.#drain(graceMs);
    return this.#drained;
  }

  /** Assigns a connection to `reader`, now or after queueing. All results go to `reader`, a failed connect included. */
  ask(reader: AnswerReader): void {
    if (this.#recent.size < RECENT_MAX || reader.upgrades || this.#destroyed) {
      this.#give(reader);
      return;
    }
    this.#queue.add(reader);
    this.#agingTimer ??= setInterval(() => this.#age(), RECENT_MS);
  }

  /** Removes an abandoned request from the queue. */
  giveUp(reader: AnswerReader): void {
    this.#queue.delete(reader);
  }

  /** Called when the response on a connection has begun, or never will. */
  answered(connection: UpstreamConnection): void {
    if (this.#recent.delete(connection)) this.#serveQueue();
  }

  /** Puts an idle connection back, so that a later request can use it. */
  put(connection: UpstreamConnection): void {
    connection.looks = 0;
    this.#idle.push(connection);
    this.#idleTimer ??= setInterval(() => this.#closeIdle(), IDLE_CHECK_MS).unref();
  }

  /** Removes a connection that has closed or has become a tunnel. */
  remove(connection: UpstreamConnection): void {
    this.#connections.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
    this.answered(connection);
  }

  /** Destroys all requests, tunnels and connections at once. */
  destroy(): void {
    this.#destroyed = true;
    for (const tunnel of [...this.#tunnels]) tunnel.destroy();
    for (const { socket } of [...this.#connections]) socket.destroy();
    const queued = [...this.#queue];
    this.#queue.clear();
    for (const reader of queued) reader.onFailure({ sent: false, stale: false });
  }

  #give(reader: AnswerReader): void {
    const socketName = reader.socketName ?? null;
    const connection = (reader.upgrades ? undefined : this.#takeIdle(socketName)) ?? this.#open(socketName);
    connection.use(reader);
    if (!reader.upgrades) this.#recent.add(connection);
    reader.onConnection(connection);
  }

  /** Assigns connections to queued requests, up to `RECENT_MAX`. */
  #serveQueue(): void {
    for (const reader of this.#queue) {
      if (this.#recent.size >= RECENT_MAX) return;
      this.#queue.delete(reader);
      this.#give(reader);
    }
  }

  /** Stops counting older requests against `RECENT_MAX`: they may wait for I/O, such as a subrequest. */
  #age(): void {
    const before = performance.now() - RECENT_MS;
    for (const connection of this.#recent) {
      if (connection.givenAt > before) break;
      this.#recent.delete(connection);
    }
    this.#serveQueue();
    if (this.#queue.size > 0) return;
    clearInterval(this.#agingTimer!);
    this.#agingTimer = null;
  }

  #takeIdle(socketName: string | null): UpstreamConnection | undefined {
    const idle = this.#idle;
    for (;;) {
      let at = idle.length - 1;
      while (at >= 0 && idle[at]!.socketName !== socketName) at--;
      if (at < 0) return undefined;
      const connection = idle[at]!;
      if (at === idle.length - 1) idle.pop();
      else idle.splice(at, 1);
      if (!connection.socket.destroyed) return connection;
    }
  }

  #open(socketName: string | null): UpstreamConnection {
    const address = socketName === null ? this.#address : this.#socketAddresses[socketName]!;
    const connection = new UpstreamConnection(this, address, socketName);
    this.#connections.add(connection);
    if (this.#destroyed) connection.socket.destroy();
    return connection;
  }

  #closeIdle(): void {
    for (const connection of this.#idle) if (++connection.looks === IDLE_CHECKS) connection.socket.destroy();
    if (this.#idle.length > 0) return;
    clearInterval(this.#idleTimer!);
    this.#idleTimer = null;
  }

  async #drain(graceMs: number): Promise<{ cut: number }> {
    for (const tunnel of [...this.#tunnels]) tunnel.close();
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, graceMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
      this.#settle();
    });
    this.#onIdle = null;
    const cut = this.#active + this.#tunnels.size;
    this.destroy();
    return { cut };
  }

  #settle(): void {
    if (this.#active === 0 && this.#tunnels.size === 0) this.#onIdle?.();
  }
}
