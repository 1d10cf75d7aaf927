// Server-sent events on their way to one who follows an app. What comes at the same time is sent together. Each event goes
// to every follower through the gateway's thread: a loud app with many of them must not take it up.
import { Allowance } from '../resources/allowance.ts';
import type { StreamPiece } from './protocol.ts';

/**
 * Characters that all who follow the same of one app are sent in a second, and for how many seconds they can be saved up.
 * Two who follow all that is kept of a flood are sent all of it.
 */
const LENGTH_PER_S = 1024 * 1024;
const SAVED_S = 4;
/** Once something was left out, this must be saved up first: several events in a row say more than one now and then. */
const RESUMED_LENGTH = LENGTH_PER_S / 4;
/** Where events were left out, their number is sent before the next one, or after this time, in ms. */
const TELL_SKIPPED_MS = 1_000;

export class EventSender {
  readonly #push: (pieces: StreamPiece[]) => void;
  readonly #followers: () => number;
  readonly #allowance = new Allowance(LENGTH_PER_S, SAVED_S);
  #text = '';
  /** How many events are in the text, with those that it says were left out. */
  #events = 0;
  #lastId: number | null = null;
  #skipped = 0;
  #timer: NodeJS.Timeout | null = null;

  /** @param followers how many follow the same of the app, with this one: each has its share */
  constructor(push: (pieces: StreamPiece[]) => void, followers: () => number) {
    this.#push = push;
    this.#followers = followers;
  }

  /** Sends an event, or leaves it out and counts it. @param write makes its text, which ends with an empty line */
  send(write: () => string, id: number | null = null): void {
    if (this.#allowance.left() <= (this.#skipped > 0 ? RESUMED_LENGTH : 0)) {
      this.#skipped++;
      this.#timer ??= setTimeout(() => this.#tellSkipped(), TELL_SKIPPED_MS);
      return;
    }
    this.#tellSkipped();
    const text = write();
    this.#allowance.use(text.length * this.#followers());
    this.#events++;
    this.#lastId = id;
    this.#add(text);
  }

  /** Sends a text that is no event of the app's. */
  say(text: string): void {
    this.#push([{ text, events: 0, lastId: null, isLast: false }]);
  }

  /** Ends the stream: the app is gone. */
  end(): void {
    this.#send();
    this.#push([{ text: '', events: 0, lastId: null, isLast: true }]);
  }

  #tellSkipped(): void {
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
 * The text of an event.
 * @param id null: the event has none
 * @param rpcMethod over RPC the event is a notification of this method; null: it is the data alone
 */
export function eventOf(data: unknown, id: string | number | null, rpcMethod: string | null): string {
  const sent = JSON.stringify(
    rpcMethod === null ? data : { jsonrpc: '2.0', method: rpcMethod, params: data },
  );
  return `${id === null ? '' : `id: ${id}\n`}data: ${sent}\n\n`;
}
