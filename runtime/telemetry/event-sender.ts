// Sends server-sent events to a client that follows an app. Events that are added in one callback are sent together. The
// gateway's thread handles each event once for every follower, so the rate is limited.
import { Allowance } from '../resources/allowance.ts';
import type { StreamPiece } from './protocol.ts';

/**
 * Rate limit in characters a second, for all followers of an app's log together. Its errors and its requests each have
 * the same limit. The limit suffices for one follower of a process that prints as much as its own rate limit allows.
 */
const LENGTH_PER_S = 1024 * 1024;
/** Largest burst: what the rate limit allows in this many seconds. */
const SAVED_S = 4;
/**
 * After events were skipped, none is sent until the rate limit allows this many characters: several events in a row are more
 * useful than single ones.
 */
const RESUMED_LENGTH = LENGTH_PER_S / 4;
/** The number of skipped events is sent after this time, in ms, or before the next event. */
const SEND_SKIPPED_MS = 1_000;

export class EventSender {
  readonly #push: (pieces: StreamPiece[]) => void;
  readonly #followers: () => number;
  readonly #allowance = new Allowance(LENGTH_PER_S, SAVED_S);
  #text = '';
  /** Number of events in the text, including the skipped ones that the text reports. */
  #events = 0;
  #lastId: number | null = null;
  #skipped = 0;
  #timer: NodeJS.Timeout | null = null;

  /** @param followers returns the number of followers that share the rate limit, this one included */
  constructor(push: (pieces: StreamPiece[]) => void, followers: () => number) {
    this.#push = push;
    this.#followers = followers;
  }

  /** Sends an event, or skips and counts it. @param write returns its text, which ends with an empty line */
  send(write: () => string, id: number | null = null): void {
    if (this.#allowance.left() <= (this.#skipped > 0 ? RESUMED_LENGTH : 0)) {
      this.#skipped++;
      this.#timer ??= setTimeout(() => this.#sendSkipped(), SEND_SKIPPED_MS);
      return;
    }
    this.#sendSkipped();
    const text = write();
    this.#allowance.use(text.length * this.#followers());
    this.#events++;
    this.#lastId = id;
    this.#add(text);
  }

  /** Sends a text that is not an event of the app. */
  say(text: string): void {
    this.#push([{ text, events: 0, lastId: null, isLast: false }]);
  }

  /** Ends the stream: the app was deleted. */
  end(): void {
    this.#send();
    this.#push([{ text: '', events: 0, lastId: null, isLast: true }]);
  }

  #sendSkipped(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    if (this.#skipped === 0) return;
    this.#events += this.#skipped;
    this.#add(`event: skipped\ndata: {"count":${this.#skipped}}\n\n`);
    this.#skipped = 0;
  }

  #add(text: string): void {
    if (this.#text === '') queueMicrotask(() => this.#send());
    this.#text += text;
  }

  #send(): void {
    if (this.#text === '') return;
    const piece = { text: this.#text, events: this.#events, lastId: this.#lastId, isLast: false };
    this.#text = '';
    this.#events = 0;
    this.#push([piece]);
  }
}

/**
 * Returns the text of an event.
 * @param id null: no id
 * @param rpcMethod with JSON-RPC, the notification's method; null: only the data
 */
export function eventOf(data: unknown, id: string | number | null, rpcMethod: string | null): string {
  const sent = JSON.stringify(
    rpcMethod === null ? data : { jsonrpc: '2.0', method: rpcMethod, params: data },
  );
  return `${id === null ? '' : `id: ${id}\n`}data: ${sent}\n\n`;
}
