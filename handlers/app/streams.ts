// Live streams of one app as server-sent events: their listeners and events.
import { type StreamEvent, StreamStore } from '../../sqlite/control/events/streams.ts';
import { Problem } from '../problem.ts';

/**
 * Interval of heartbeat comments, in ms. They keep proxies from closing the connection, and reveal disconnected listeners.
 */
const HEARTBEAT_MS = 15_000;
/** Bytes buffered for a slow listener before it is disconnected. It can reconnect with its last event id. */
const BACKLOG_BYTES = 256 * 1024;
/** Maximum listeners of one app, on both streams together. */
const LISTENER_LIMIT = 1000;

export type StreamName = 'deploys' | 'events';

export interface Subscription {
  stream: StreamName;
  /** The last event that the listener has seen; undefined: only new events. */
  lastEventId: number | undefined;
  /** Method of the JSON-RPC notifications that carry the events; null for plain server-sent events. */
  rpcMethod: string | null;
}

/** A fact (a reported change) of the host's outbox, as an event of the deploys stream. */
export interface StreamFact {
  seq: number;
  event: 'log' | null;
  data: unknown;
}

interface Listener {
  subscription: Subscription;
  controller: ReadableByteStreamController;
}

const encoder = new TextEncoder();

/** The streams of one app. Events are stored and sent in one synchronous step, so a listener sees each exactly once. */
export class Streams {
  readonly #store: StreamStore;
  readonly #listeners = new Set<Listener>();
  #heartbeat: ReturnType<typeof setInterval> | null = null;

  constructor(sql: SqlStorage) {
    this.#store = new StreamStore(sql);
  }

  /** Stores an event and sends it. @param name the type of the event; with null, browsers fire `message` */
  publish(stream: StreamName, data: unknown, name: string | null = null): void {
    const event = this.#store.append(stream, name, JSON.stringify(data), Date.now());
    for (const listener of this.#listeners) {
      if (listener.subscription.stream === stream) this.#send(listener, format(event, listener.subscription));
    }
  }

  /**
   * Deletes the events that are older than `before`, in ms since 1970.
   * @returns the time of the oldest event left; null when none is left
   */
  prune(before: number): number | null {
    return this.#store.prune(before);
  }

  /** Publishes facts of the host's outbox. Skips those published before. */
  publishFacts(outbox: string, facts: StreamFact[]): void {
    for (const { seq, event, data } of facts) {
      if (this.#store.advance(outbox, seq) < seq) this.publish('deploys', data, event);
    }
  }

  /** Opens a stream. @throws {Problem} `rate_limited` when there are too many listeners */
  open(subscription: Subscription): ReadableStream<Uint8Array> {
    if (this.#listeners.size >= LISTENER_LIMIT) {
      throw new Problem(
        'rate_limited',
        `The app has ${LISTENER_LIMIT} open event streams, the maximum. Close one, then try again.`,
      );
    }
    let listener: Listener;
    const stream = new ReadableStream(
      {
        type: 'bytes',
        start: (controller) => {
          listener = { subscription, controller };
          this.#listeners.add(listener);
          this.#send(listener, this.#opening(subscription));
        },
        cancel: () => this.#remove(listener),
      },
      { highWaterMark: BACKLOG_BYTES },
    );
    this.#heartbeat ??= setInterval(() => this.#beat(), HEARTBEAT_MS);
    return stream;
  }

  /** Ends every stream, because the app is deleted. */
  close(): void {
    for (const listener of this.#listeners) this.#end(listener);
  }

  #opening(subscription: Subscription): string {
    const { stream, lastEventId } = subscription;
    if (lastEventId === undefined) return ': connected\n\n';
    const { events, gap } = this.#store.after(stream, lastEventId);
    const reset = gap ? 'event: reset\ndata: {"reason":"events were dropped; read the list again"}\n\n' : '';
    return `: connected\n\n${reset}${events.map((event) => format(event, subscription)).join('')}`;
  }

  #beat(): void {
    for (const listener of this.#listeners) this.#send(listener, ': still here\n\n');
  }

  #send(listener: Listener, text: string): void {
    try {
      listener.controller.enqueue(encoder.encode(text));
      if ((listener.controller.desiredSize ?? 0) < 0) this.#end(listener);
    } catch {
      // The listener has disconnected, and `cancel` was not called yet.
      this.#remove(listener);
    }
  }

  #end(listener: Listener): void {
    this.#remove(listener);
    try {
      listener.controller.close();
    } catch {
      // Already closed.
    }
  }

  #remove(listener: Listener): void {
    this.#listeners.delete(listener);
    if (this.#listeners.size > 0 || this.#heartbeat === null) return;
    clearInterval(this.#heartbeat);
    this.#heartbeat = null;
  }
}

function format({ seq, name, data }: StreamEvent, { rpcMethod }: Subscription): string {
  const sent =
    rpcMethod === null ? data : `{"jsonrpc":"2.0","method":${JSON.stringify(rpcMethod)},"params":${data}}`;
  return `id: ${seq}\n${name === null ? '' : `event: ${name}\n`}data: ${sent}\n\n`;
}
