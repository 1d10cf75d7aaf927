// One process that takes requests: its connection pool, and a count of what is in flight, so that a drain sees
// every request.
import { buildConnector, Pool } from 'undici';

/** Where a process listens: a unix socket, or an origin such as `http://127.0.0.1:8788`. */
export type UpstreamAddress = { socketPath: string } | { origin: string };

/** An upgraded connection, as a drain sees it. */
export interface TrackedTunnel {
  /** Ends it politely: a WebSocket's client gets a close frame with 1012, service restart. */
  close(): void;
  /** Ends it at once. */
  destroy(): void;
}

/** Longest wait for a connection to the process, in ms. It is on this machine, so a slow one is a dead one. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Largest response head taken from an app, in bytes. Above undici's 16 KB: apps set many cookies. */
const RESPONSE_HEAD_BYTES = 64 * 1024;

export class Upstream {
  /** Has no timeout of its own once connected: an event stream may be silent for hours. */
  readonly pool: Pool;
  #active = 0;
  readonly #tunnels = new Set<TrackedTunnel>();
  #onIdle: (() => void) | null = null;
  #drained: Promise<{ cut: number }> | null = null;

  constructor(address: UpstreamAddress) {
    this.pool = new Pool('origin' in address ? address.origin : 'http://localhost', {
      connect: connector('socketPath' in address ? address.socketPath : null),
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: RESPONSE_HEAD_BYTES,
    });
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

  /** Cuts every request, tunnel and connection at once. */
  destroy(): void {
    for (const tunnel of [...this.#tunnels]) tunnel.destroy();
    this.pool.destroy().catch(() => {});
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

/** Errors of connections that had already answered a request. */
const reusedSocketErrors = new WeakSet<Error>();

/** Whether an error may only mean that the process closed an idle connection just when it was used again. */
export function isReusedSocketError(error: Error): boolean {
  const { socket } = error as { socket?: { bytesRead?: number } };
  return reusedSocketErrors.has(error) || (socket?.bytesRead ?? 0) > 0;
}

function connector(socketPath: string | null): buildConnector.connector {
  const connect = buildConnector({
    timeout: CONNECT_TIMEOUT_MS,
    allowH2: false,
    allowHalfOpen: true,
    ...(socketPath === null ? {} : { socketPath }),
  });
  return (options, callback) =>
    connect(options, (error, socket) => {
      if (error !== null) return callback(error, null);
      // undici names the socket only in errors of its own, not in those of the system such as ECONNRESET.
      socket.prependListener('error', (cause) => {
        if (socket.bytesRead > 0) reusedSocketErrors.add(cause);
      });
      callback(null, socket);
    });
}
