// One process that takes requests: its connections, and a count of what is in flight, so that a drain sees every
// request.
import { type AnswerReader, type UpstreamAddress, UpstreamConnection } from './upstream-connection.ts';

/** How long an idle connection is kept, in ms. workerd closes its own after 15 seconds. */
const IDLE_MS = 5_000;
/** How often idle connections are looked at, in ms. */
const LOOK_MS = 1_000;

/** An upgraded connection, as a drain sees it. */
export interface TrackedTunnel {
  /** Ends it politely: a WebSocket's client gets a close frame with 1012, service restart. */
  close(): void;
  /** Ends it at once. */
  destroy(): void;
}

export class Upstream {
  readonly #address: UpstreamAddress;
  /** All of its connections but those of tunnels. */
  readonly #connections = new Set<UpstreamConnection>();
  /** Those that carry no request; the one used last is taken first. */
  readonly #idle: UpstreamConnection[] = [];
  #look: NodeJS.Timeout | null = null;
  #destroyed = false;
  #active = 0;
  readonly #tunnels = new Set<TrackedTunnel>();
  #onIdle: (() => void) | null = null;
  #drained: Promise<{ cut: number }> | null = null;

  constructor(address: UpstreamAddress) {
    this.#address = address;
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

  /** A connection for one request. What becomes of it, a failed connect too, is told to `reader`. */
  connect(reader: AnswerReader): UpstreamConnection {
    const connection = (reader.upgrades ? undefined : this.#takeIdle()) ?? this.#open();
    connection.use(reader);
    return connection;
  }

  /** Takes a connection back for another request. */
  put(connection: UpstreamConnection): void {
    connection.idleSince = performance.now();
    this.#idle.push(connection);
    this.#look ??= setInterval(() => this.#closeIdle(), LOOK_MS).unref();
  }

  /** Forgets a connection that has closed or has become a tunnel. */
  remove(connection: UpstreamConnection): void {
    this.#connections.delete(connection);
    const at = this.#idle.indexOf(connection);
    if (at !== -1) this.#idle.splice(at, 1);
  }

  /** Cuts every request, tunnel and connection at once. */
  destroy(): void {
    this.#destroyed = true;
    for (const tunnel of [...this.#tunnels]) tunnel.destroy();
    for (const { socket } of [...this.#connections]) socket.destroy();
  }

  #takeIdle(): UpstreamConnection | undefined {
    for (;;) {
      const connection = this.#idle.pop();
      if (connection === undefined || !connection.socket.destroyed) return connection;
    }
  }

  #open(): UpstreamConnection {
    const connection = new UpstreamConnection(this, this.#address);
    this.#connections.add(connection);
    if (this.#destroyed) connection.socket.destroy();
    return connection;
  }

  #closeIdle(): void {
    const before = performance.now() - IDLE_MS;
    for (const { socket, idleSince } of this.#idle) if (idleSince < before) socket.destroy();
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
