// Streams of server-sent events that the host itself answers: bytes go from the telemetry's thread to the listeners.
import type { ServerResponse } from 'node:http';
import { Refusal } from '../../refusal.ts';
import type { StreamPiece } from '../../telemetry/protocol.ts';

/** A comment is sent this often, so that proxies keep the connection and those who left are noticed. */
const HEARTBEAT_MS = 15_000;
/** Listeners of one app, and of all. */
const LISTENERS_OF_APP = 100;
const LISTENERS = 1_000;
/** Bytes waiting for a listener above which events are left out, and counted; and for all of them together. */
const BACKLOG_BYTES = 1024 * 1024;
const BACKLOG_OF_ALL_BYTES = 64 * 1024 * 1024;
/** A listener that has read nothing for this many heartbeats is disconnected. */
const STALLED_BEATS = 4;

interface Listener {
  appId: string;
  response: ServerResponse;
  skipped: number;
  /** Heartbeats since it last read all that there was. */
  stalled: number;
  /** Ends what feeds it. */
  unfollow: () => void;
}

export class LiveStreams {
  readonly #listeners = new Set<Listener>();
  #heartbeat: NodeJS.Timeout | null = null;

  /**
   * Answers with a stream, until its reader or its source ends it.
   * @param follow feeds it, until the function that it returns is called
   * @throws {Refusal} 429 when too many listen
   */
  open(
    appId: string,
    response: ServerResponse,
    follow: (take: (pieces: StreamPiece[]) => void) => () => void,
  ): void {
    const ofApp = [...this.#listeners].filter((other) => other.appId === appId).length;
    if (ofApp >= LISTENERS_OF_APP || this.#listeners.size >= LISTENERS)
      throw new Refusal(429, 'rate_limited', `${Math.max(ofApp, 1)} listeners follow this app already`);
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
      // Events are left out until the listener has read all that waits; then it is told where events are missing.
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
