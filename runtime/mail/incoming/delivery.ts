// Gives a received e-mail to its app, over a WebSocket through the host, which finds or starts the app's process. The app
// asks for the content in chunks, and for forwards and replies.
import { connect, type Socket } from 'node:net';
import { Agent, WebSocket } from 'undici';
import { asciiJson } from '../../edge/http/body/ascii-json.ts';
import { log, reason } from '../../log.ts';
import { domainOf } from '../addresses.ts';
import { internal, MailError } from '../errors.ts';
import { MESSAGE_BYTES, parseJson } from '../message.ts';
import { Rates } from '../rates.ts';
import { type Incoming, MAIL_BYTES } from './incoming.ts';
import { ENVELOPE_HEADER } from './messages.ts';
import type { Outgoing } from './outgoing.ts';

/** Timeout for the start of an app's process and its `email()` handler, in ms. */
const DEADLINE_MS = 120_000;
/** Bytes of content in one message to the app. */
const CHUNK_BYTES = 128 * 1024;
/** Maximum bytes of one message from the app: a reply in base64, inside JSON. */
const ASKED_BYTES = 2 * MESSAGE_BYTES;
/** Maximum forwards and replies to one e-mail. */
const SENDS = 50;
/** Maximum concurrent forwards and replies to one e-mail. */
const SENDS_AT_ONCE = 4;
/** Maximum messages of an app about one e-mail: it asks for each chunk of the content, and for forwards and replies. */
const MESSAGES = Math.ceil(MAIL_BYTES / CHUNK_BYTES) + 10 * SENDS;
/** Maximum bytes of answers that an app has not read. */
const UNREAD_BYTES = 256 * 1024;
/** How long an app may leave the connection open after the outcome is known, in ms. */
const CLOSE_MS = 2_000;
/** Longest reason of a refusal, in characters. */
const REASON_LENGTH = 300;

/** How an app has handled an e-mail. `failed`: the sender's mail server may send it again. */
export type Outcome =
  | { kind: 'accepted' }
  | { kind: 'rejected'; reason: string }
  | { kind: 'failed'; reason: string };

/** A message from the app's process. Its fields are not checked yet. */
interface Asked {
  more?: unknown;
  send?: { id?: unknown; kind?: unknown; given?: unknown };
  outcome?: { kind?: unknown; reason?: unknown };
}

export class Deliveries {
  readonly #socket: string;
  readonly #outgoing: Outgoing;
  /** Rate limits of forwards and replies, by app. */
  readonly #rates = new Map<string, Rates>();

  /** @param socket path of the host's Unix socket, at which the host forwards e-mails to the apps */
  constructor(socket: string, outgoing: Outgoing) {
    this.#socket = socket;
    this.#outgoing = outgoing;
  }

  /** Gives an e-mail to an app. Resolves with the outcome within `DEADLINE_MS`. Never rejects. @param app the app's id */
  async deliver(incoming: Incoming, app: string): Promise<Outcome> {
    const rates = this.#rates.get(app) ?? new Rates();
    this.#rates.set(app, rates);
    const { from, to } = incoming;
    let connection: Socket | undefined;
    const agent = new Agent({
      connect: (_options, opened) => {
        connection = connect(this.#socket);
        connection.once('connect', () => opened(null, connection!));
        connection.once('error', (error) => opened(error, null));
      },
      webSocket: { maxPayloadSize: ASKED_BYTES },
    });
    const socket = new WebSocket('ws://mail/', {
      dispatcher: agent,
      headers: { [ENVELOPE_HEADER]: asciiJson({ from, to }) },
    });
    const { promise, resolve } = Promise.withResolvers<Outcome>();
    const fail = (why: string) => resolve({ kind: 'failed', reason: why });
    const timer = setTimeout(() => fail('the app did not finish in time'), DEADLINE_MS);
    const conversation = new Conversation(socket, incoming, resolve, (kind, given) =>
      kind === 'forward'
        ? this.#outgoing.forward(incoming, rates, given)
        : this.#outgoing.reply(incoming, rates, given),
    );
    socket.addEventListener('close', () => fail('the app cannot receive e-mails now'));
    socket.addEventListener('error', () => fail('the app cannot receive e-mails now'));
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      conversation.leave();
      socket.close();
      // An app that does not answer the close would keep the e-mail in memory.
      setTimeout(() => connection?.destroy(), CLOSE_MS).unref();
    }
  }
}

/** The messages with an app about one e-mail. */
class Conversation {
  readonly #socket: WebSocket;
  readonly #incoming: Incoming;
  readonly #end: (outcome: Outcome) => void;
  readonly #send: (kind: 'forward' | 'reply', given: unknown) => Promise<string>;
  /** Bytes of content that were sent. */
  #sent = 0;
  #messages = 0;
  #hasEnded = false;
  #sends = 0;
  #running = 0;

  constructor(
    socket: WebSocket,
    incoming: Incoming,
    end: (outcome: Outcome) => void,
    send: (kind: 'forward' | 'reply', given: unknown) => Promise<string>,
  ) {
    this.#socket = socket;
    this.#incoming = incoming;
    this.#end = end;
    this.#send = send;
    socket.addEventListener('open', () => this.#begin());
    socket.addEventListener('message', ({ data }) => this.#take(data));
  }

  /** Ignores all further messages of the app. */
  leave(): void {
    this.#hasEnded = true;
  }

  #begin(): void {
    const { from, to, raw, head } = this.#incoming;
    const headers = head.fields.map(({ name, value }) => [name, value]);
    this.#say({ message: { from, to, rawSize: raw.length, headers } });
  }

  #say(message: object): void {
    if (this.#hasEnded || this.#socket.readyState !== WebSocket.OPEN) return;
    this.#socket.send(JSON.stringify(message));
  }

  #take(data: unknown): void {
    if (this.#hasEnded) return;
    if (++this.#messages > MESSAGES || this.#socket.bufferedAmount > UNREAD_BYTES) {
      this.leave();
      this.#end({ kind: 'failed', reason: 'the app sent too many calls, or did not read the answers' });
      return;
    }
    let asked: Asked;
    try {
      asked = parseJson(String(data)) as Asked;
      if (typeof asked !== 'object' || asked === null) throw new Error('no object');
    } catch (error) {
      const reason = error instanceof MailError ? error.message : 'the answer of the app is not valid';
      this.#end({ kind: 'failed', reason });
      return;
    }
    if (asked.more !== undefined) this.#sendChunk();
    else if (asked.send !== undefined) void this.#answer(asked.send);
    else this.#end(outcomeOf(asked.outcome));
  }

  #sendChunk(): void {
    const { raw } = this.#incoming;
    // An empty chunk is the end.
    const chunk = raw.subarray(this.#sent, this.#sent + CHUNK_BYTES);
    this.#sent += chunk.length;
    // The app asks for one chunk at a time. Two chunks in this buffer mean that the app does not read them.
    if (this.#socket.bufferedAmount < 2 * CHUNK_BYTES) this.#socket.send(chunk);
    else this.#end({ kind: 'failed', reason: 'the app asked for the content and did not read it' });
  }

  async #answer({ id, kind, given }: NonNullable<Asked['send']>): Promise<void> {
    try {
      if (kind !== 'forward' && kind !== 'reply') throw internal('There is no such call.');
      this.#sends++;
      if (this.#sends > SENDS || this.#running >= SENDS_AT_ONCE)
        throw new MailError(
          429,
          'E_RATE_LIMIT_EXCEEDED',
          `An e-mail may have at most ${SENDS} forwards and replies, and at most ${SENDS_AT_ONCE} at a time.`,
        );
      this.#running++;
      const messageId = await this.#send(kind, given).finally(() => this.#running--);
      this.#say({ id, messageId });
    } catch (error) {
      if (!(error instanceof MailError))
        log('warn', 'an app could not forward or reply to an e-mail', {
          domain: domainOf(this.#incoming.to),
          error: reason(error),
        });
      const { code, message } =
        error instanceof MailError ? error : internal('The e-mail could not be sent.');
      this.#say({ id, code, message });
    }
  }
}

function outcomeOf({ kind, reason }: { kind?: unknown; reason?: unknown } = {}): Outcome {
  if (kind === 'accepted') return { kind };
  const text = String(reason ?? '')
    .replace(/[^\x20-\x7e]+/g, ' ')
    .slice(0, REASON_LENGTH)
    .trim();
  if (kind === 'rejected') return { kind, reason: text || 'the message was refused' };
  return { kind: 'failed', reason: text || 'the app failed' };
}
