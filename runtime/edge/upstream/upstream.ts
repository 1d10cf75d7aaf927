// One process that takes requests: its connections, and a count of what is in flight, so that a drain sees every
// request.

import type { Refusal } from '../refusals.ts';
import { Queue } from './queue.ts';
import { type AnswerReader, type UpstreamAddress, UpstreamConnection } from './upstream-connection.ts';

/** How often idle connections are looked at, in ms. */
const LOOK_MS = 1_000;
/** An idle connection that is looked at so often is closed. workerd closes its own after 15 seconds. */
const IDLE_LOOKS = 6;

/**
 * Requests that a process is given at once, before it has answered one of them: with many hundreds, workerd serves few
 * connections over and over, and leaves the others for seconds. The rest wait here, in the order in which they came.
 */
const YOUNG_MAX = 32;
/** A request that has not been answered for so long, in ms, does not keep the next one waiting. */
const YOUNG_MS = 5;

/** An upgraded connection, as a drain sees it. */
export interface TrackedTunnel {
  /** Ends it politely: a WebSocket's client gets a close frame with 1012, service restart. */
  close(): void;
  /** Ends it at once. */
  destroy(): void;
}

/** How a process came to be. */
interface Started {
  /** When it was ready, on the clock of `performance.now()`. */
  readyAt: number;
  /** What its start took, in ms. */
  startMs: number;
  /** Which release of an app it runs. */
  release?: string | null;
}

export class Upstream {
  readonly readyAt: number;
  readonly startMs: number;
  /** Which release of an app it runs; null for what has none. */
  readonly release: string | null;
  readonly #address: UpstreamAddress;
  readonly #doors: Record<string, UpstreamAddress>;
  /** All of its connections but those of tunnels. */
  readonly #connections = new Set<UpstreamConnection>();
  /** Those that carry no request; the one used last is taken first. */
  readonly #idle: UpstreamConnection[] = [];
  #look: NodeJS.Timeout | null = null;
  /** Those whose requests were given to the process lately and are not answered yet, the oldest first. */
  readonly #young = new Queue<UpstreamConnection>();
  /** Requests that wait for a connection, the oldest first. */
  readonly #queue = new Set<AnswerReader>();
  #aging: NodeJS.Timeout | null = null;
  #destroyed = false;
  #active = 0;
  readonly #tunnels = new Set<TrackedTunnel>();
  #onIdle: (() => void) | null = null;
  #drained: Promise<{ cut: number }> | null = null;
  /** What its requests are answered when the process ends; null: that it gave no answer. */
  refusal: Refusal | null = null;

  /**
   * @param started of a process that was always there as far as its callers know: none of it
   * @param doors other sockets of the process, by name
   */
  constructor(
    address: UpstreamAddress,
    started: Started = { readyAt: 0, startMs: 0 },
    doors: Record<string, UpstreamAddress> = {},
  ) {
    this.#doors = doors;
    this.#address = address;
    this.readyAt = started.readyAt;
    this.startMs = started.startMs;
    this.release = started.release ?? null;
  }

  /** Whether the process has a socket of that name; null: the one for all requests. */
  hasDoor(door: string | null): boolean {
    return door === null || Object.hasOwn(this.#doors, door);
  }

  /** Requests in flight, those that became tunnels left out. */
  get active(): number {
    return this.#active;
  }

  /** Upgraded connections that are open. */
  get tunnels(): number {
    return this.#tunnels.size;
  }

  /** Counts one request in flight. Call what it returns once, when the request has ended. */
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

  /** Counts an upgraded connection. Call what it returns when the connection has ended. */
  track(tunnel: TrackedTunnel): () => void {
    this.#tunnels.add(tunnel);
    if (this.#drained !== null) tunnel.close();
    return () => {
      if (this.#tunnels.delete(tunnel)) this.#settle();
    };
  }

  /**
   * Closes tunnels politely, waits up to `graceMs` for what is in flight and destroys the rest, which it counts.
   * Route nothing here any more before the call. A second call returns the first one's promise.
   */
  drain(graceMs: number): Promise<{ cut: number }> {
    this.#drained ??= this.#drain(graceMs);
    return this.#drained;
  }

  /** Gets `reader` a connection for one request, now or in its turn. What becomes of it, a failed connect too, it is told. */
  ask(reader: AnswerReader): void {
    if (this.#young.size < YOUNG_MAX || reader.upgrades || this.#destroyed) {
      this.#give(reader);
      return;
    }
    this.#queue.add(reader);
    this.#aging ??= setInterval(() => this.#age(), YOUNG_MS);
  }

  /** Takes a request out of the queue that nobody waits for any more. */
  giveUp(reader: AnswerReader): void {
    this.#queue.delete(reader);
  }

  /** The answer on a connection has begun, or never will. */
  answered(connection: UpstreamConnection): void {
    if (this.#young.delete(connection)) this.#serveQueue();
  }

  /** Takes a connection back for another request. */
  put(connection: UpstreamConnection): void {
    connection.looks = 0;
    this.#idle.push(connection);
    this.#look ??= setInterval(() => this.#closeIdle(), LOOK_MS).unref();
  }

  /** Forgets a connection that has closed or has become a tunnel. */
  remove(connection: UpstreamConnection): void {
    this.#connections.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
    this.answered(connection);
  }

  /** Cuts every request, tunnel and connection at once. */
  destroy(): void {
    this.#destroyed = true;
    for (const tunnel of [...this.#tunnels]) tunnel.destroy();
    for (const { socket } of [...this.#connections]) socket.destroy();
    const queued = [...this.#queue];
    this.#queue.clear();
    for (const reader of queued) reader.onFailure({ sent: false, stale: false });
  }

  #give(reader: AnswerReader): void {
    const door = reader.door ?? null;
    const connection = (reader.upgrades ? undefined : this.#takeIdle(door)) ?? this.#open(door);
    connection.use(reader);
    if (!reader.upgrades) this.#young.add(connection);
    reader.onConnection(connection);
  }

  /** Gives those who wait their connections, as far as that goes. */
  #serveQueue(): void {
    for (const reader of this.#queue) {
      if (this.#young.size >= YOUNG_MAX) return;
      this.#queue.delete(reader);
      this.#give(reader);
    }
  }

  /** Counts those no longer that a process has had for some time: it may be waiting for something itself. */
  #age(): void {
    const before = performance.now() - YOUNG_MS;
    for (const connection of this.#young) {
      if (connection.givenAt > before) break;
      this.#young.delete(connection);
    }
    this.#serveQueue();
    if (this.#queue.size > 0) return;
    clearInterval(this.#aging!);
    this.#aging = null;
  }

  #takeIdle(door: string | null): UpstreamConnection | undefined {
    const idle = this.#idle;
    for (;;) {
      let at = idle.length - 1;
      while (at >= 0 && idle[at]!.door !== door) at--;
      if (at < 0) return undefined;
      const connection = idle[at]!;
      if (at === idle.length - 1) idle.pop();
      else idle.splice(at, 1);
      if (!connection.socket.destroyed) return connection;
    }
  }

  #open(door: string | null): UpstreamConnection {
    const address = door === null ? this.#address : this.#doors[door]!;
    const connection = new UpstreamConnection(this, address, door);
    this.#connections.add(connection);
    if (this.#destroyed) connection.socket.destroy();
    return connection;
  }

  #closeIdle(): void {
    for (const connection of this.#idle) if (++connection.looks === IDLE_LOOKS) connection.socket.destroy();
    if (this.#idle.length > 0) return;
    clearInterval(this.#look!);
    this.#look = null;
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
