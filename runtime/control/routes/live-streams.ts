// Server-sent event streams of an app's logs, errors and requests. The host sends them to the control plane, which relays
// them to clients.
import type { ServerResponse } from 'node:http';
import { Refusal } from '../../refusal.ts';
import type { StreamPiece } from '../../telemetry/protocol.ts';

/** Interval of comments, in ms. They keep connections through proxies open, and detect closed ones. */
const HEARTBEAT_MS = 15_000;
/** Maximum number of listeners of one app. */
const LISTENERS_OF_APP = 100;
/** Maximum number of listeners of all apps. */
const LISTENERS = 1_000;
/** Maximum backlog of one listener, in bytes. Above it, further events are skipped and counted. */
const BACKLOG_BYTES = 1024 * 1024;
/** Maximum backlog of all listeners together, in bytes. Each may have an equal part. */
const BACKLOG_OF_ALL_BYTES = 64 * 1024 * 1024;
/** Heartbeats after which a listener that reads nothing is disconnected. */
const STALLED_BEATS = 4;

interface Listener {
  appId: string;
  response: ServerResponse;
  skipped: number;
  /** Heartbeats since its backlog was last empty. */
  stalled: number;
  /** Stops the source of its events. */
  unfollow: () => void;
}

export class LiveStreams {
  readonly #listeners = new Set<Listener>();
  #heartbeat: NodeJS.Timeout | null = null;

  /**
   * Responds with a stream, until the client or the source of its events ends it.
   * @param follow starts to feed the stream; returns a function that stops the feed
   * @throws {Refusal} 429 when there are too many listeners
   */
  open(
    appId: string,
    response: ServerResponse,
    follow: (take: (pieces: StreamPiece[]) => void) => () => void,
  ): void {
    const ofApp = [...this.#listeners].filter((other) => other.appId === appId).length;
    if (ofApp >= LISTENERS_OF_APP || this.#listeners.size >= LISTENERS) {
      const [most, what] =
        ofApp >= LISTENERS_OF_APP ? [LISTENERS_OF_APP, 'this app'] : [LISTENERS, 'the apps of this host'];
      throw new Refusal(
        429,
        'rate_limited',
        `${most} listeners follow ${what} already; close one, or try again later`,
      );
    }
    if (response.destroyed) return;
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.write(': connected\n\n');
    const listener: Listener = { appId, response, skipped: 0, stalled: 0, unfollow: () => {} };
    this.#listeners.add(listener);
    response.on('error', () => {});
    response.on('close', () => this.#remove(listener));
    response.on('drain', () => this.#drained(listener));
    listener.unfollow = follow((pieces) => this.#take(listener, pieces));
    this.#heartbeat ??= setInterval(() => this.#beat(), HEARTBEAT_MS);
  }

  #take(listener: Listener, pieces: StreamPiece[]): void {
    const { response } = listener;
    const most = Math.min(BACKLOG_BYTES, BACKLOG_OF_ALL_BYTES / this.#listeners.size);
    for (const { text, events, isLast } of pieces) {
      // Skips events until the backlog is empty; then one event reports how many are missing.
      if (listener.skipped > 0 || response.writableLength > most) listener.skipped += events;
      else if (text !== '') response.write(text);
      if (isLast) response.end();
    }
  }

  #drained(listener: Listener): void {
    listener.stalled = 0;
    if (listener.skipped === 0) return;
    listener.response.write(`event: skipped\ndata: {"count":${listener.skipped}}\n\n`);
    listener.skipped = 0;
  }

  #beat(): void {
    for (const listener of this.#listeners) {
      const { response } = listener;
      if (!response.writableNeedDrain) response.write(': still here\n\n');
      else if (++listener.stalled > STALLED_BEATS) response.destroy();
    }
  }

  #remove(listener: Listener): void {
    if (!this.#listeners.delete(listener)) return;
    listener.unfollow();
    if (this.#listeners.size > 0 || this.#heartbeat === null) return;
    clearInterval(this.#heartbeat);
    this.#heartbeat = null;
  }
}
