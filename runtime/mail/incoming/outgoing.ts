// Sends an app's forwards of a received e-mail and its replies, by the same mail server and rules as `send_email`.
import { z } from 'zod';
import { FairQueue, QueueFull } from '../../queues/fair-queue.ts';
import { comparable, domainOf, isAddress } from '../addresses.ts';
import type { MailServiceOptions } from '../app-server.ts';
import { customHeaders, requireFewHeaders } from '../custom-headers.ts';
import { deliver } from '../deliver.ts';
import {
  headerNotAllowed,
  invalid,
  notSet,
  rateExceeded,
  recipientNotAllowed,
  senderNotVerified,
} from '../errors.ts';
import { messageOf } from '../message.ts';
import type { Rates } from '../rates.ts';
import { requireSender } from '../sender.ts';
import { type Head, headOf, valuesOf, withHeaders } from './head.ts';
import type { Incoming } from './incoming.ts';

/** Maximum message ids in References of an e-mail that gets a reply, as on Cloudflare. Ends loops of automatic replies. */
const REFERENCES = 100;
/** Limits of the queue, in total and per account. Low, because each forward or reply holds a copy of its e-mail. */
const SENDS = { name: 'forwards and replies', running: 12, runningPerOwner: 4, waitingPerOwner: 100 };
/** Headers of a reply that Cellar sets. */
const THREAD = ['in-reply-to', 'references'];
const CR = 0x0d;
const LF = 0x0a;

const Forward = z.object({ to: z.string(), headers: z.array(z.tuple([z.string(), z.string()])).max(100) });
const Reply = z.looseObject({ from: z.unknown(), to: z.unknown().optional() });

export class Outgoing {
  readonly #options: MailServiceOptions | null;
  readonly #queue = new FairQueue(SENDS);
  readonly #deliver: typeof deliver;

  /**
   * @param options null without a mail server: each call rejects then
   * @param send replaced in `cellar dev`, which sends nothing
   */
  constructor(options: MailServiceOptions | null, send = deliver) {
    this.#options = options;
    this.#deliver = send;
  }

  /**
   * Forwards a received e-mail; its envelope sender becomes the address that it came to. The app may add headers that begin
   * with X-.
   * @returns its Message-ID; empty if it has none
   * @throws {MailError} why it was not sent
   */
  async forward(incoming: Incoming, rates: Rates, given: unknown): Promise<string> {
    const { success, data } = Forward.safeParse(given);
    if (!success || !isAddress(data.to)) throw invalid('forward() takes an e-mail address and headers.');
    const { server, senders } = this.#required();
    // Sent by this Cellar's mail server, a forged sender would look real.
    if (incoming.dmarc === 'fail')
      throw recipientNotAllowed('The sender may be forged (DMARC failed), and the e-mail is not forwarded.');
    // A notification keeps its empty sender: nobody is notified of its failure, so servers cannot notify each other for
    // ever.
    const from = incoming.from === '' ? '' : incoming.to;
    requireSender(senders, incoming.to);
    const added = Object.entries(customHeaders(Object.fromEntries(data.headers)));
    const foreign = added.find(([name]) => !/^x-/i.test(name));
    if (foreign) throw headerNotAllowed(`forward() may add headers that begin with X-, not ${foreign[0]}.`);
    rates.take(1);
    const lines = added.map(([name, value]) => `${name}: ${Buffer.from(value).toString('latin1')}`);
    await this.#inTurn(incoming, () => {
      const raw = withHeaders(incoming.raw, incoming.head, (name) => name !== 'return-path', lines);
      return this.#deliver(server, { from, to: [data.to], raw: withCrlf(raw) });
    });
    return valuesOf(incoming.head, 'message-id')[0] ?? '';
  }

  /**
   * Replies to the sender of a received e-mail, from the domain that it came to.
   * @returns the reply's Message-ID
   * @throws {MailError} why it was not sent
   */
  async reply(incoming: Incoming, rates: Rates, given: unknown): Promise<string> {
    const { success, data } = Reply.safeParse(given);
    if (!success) throw invalid('reply() takes an EmailMessage, or an object with from and subject.');
    const { server, senders } = this.#required();
    if (incoming.from === '') throw recipientNotAllowed('A notification without a sender gets no reply.');
    if (incoming.dmarc === 'fail')
      throw recipientNotAllowed('The sender may be forged (DMARC failed), and gets no reply.');
    const references = valuesOf(incoming.head, 'references').join(' ').split(/\s+/).filter(Boolean);
    if (references.length > REFERENCES)
      throw recipientNotAllowed(`The e-mail has more than ${REFERENCES} References, as in a loop.`);
    const [id] = valuesOf(incoming.head, 'message-id');
    const { cc: _cc, bcc: _bcc, ...fields } = data;
    const isRaw = 'raw' in fields;
    const asked = isRaw
      ? fields
      : { ...fields, to: incoming.from, headers: threaded(fields, id, references) };
    const message = await messageOf(asked, incoming.from);
    const [to] = message.to;
    if (comparable(to!) !== comparable(incoming.from))
      throw recipientNotAllowed(`A reply must go to ${incoming.from}, the sender of the e-mail.`);
    if (comparable(domainOf(message.from)) !== comparable(domainOf(incoming.to)))
      throw senderNotVerified(
        `A reply must come from an address at ${domainOf(incoming.to)}, where the e-mail arrived.`,
      );
    requireSender(senders, message.from);
    if (isRaw && id !== undefined && !isReplyTo(headOf(message.raw), id))
      throw invalid(`The reply needs the header In-Reply-To: ${id}`);
    rates.take(1);
    await this.#inTurn(incoming, () => this.#deliver(server, message));
    return message.id;
  }

  async #inTurn({ owner }: Incoming, send: () => Promise<void>): Promise<void> {
    await this.#queue.run({ owner }, send).catch((error: unknown) => {
      throw error instanceof QueueFull ? rateExceeded(`The e-mail was not sent: ${error.message}.`) : error;
    });
  }

  #required(): MailServiceOptions {
    if (this.#options === null) throw notSet();
    return this.#options;
  }
}

/** Adds In-Reply-To and References to the headers of a reply, so that mail readers show the reply in its conversation. */
function threaded(fields: object, id: string | undefined, references: string[]): Record<string, unknown> {
  const own = 'headers' in fields && typeof fields.headers === 'object' ? fields.headers : {};
  requireFewHeaders(own);
  if (id === undefined) return { ...own };
  // Leaves out the oldest ids, so that the header does not get too long.
  const all = [...references, id].slice(-20).join(' ').slice(-1_000);
  const others = Object.entries(own ?? {}).filter(([name]) => !THREAD.includes(name.toLowerCase()));
  return { ...Object.fromEntries(others), 'In-Reply-To': id, References: all.slice(all.indexOf('<')) };
}

function isReplyTo(head: Head | null, id: string): boolean {
  return head !== null && valuesOf(head, 'in-reply-to').some((value) => value.split(/\s+/).includes(id));
}

/**
 * Replaces a CR or LF alone by CRLF: with other line ends a server could be tricked into a second e-mail (SMTP smuggling).
 * Works on bytes, because large texts would fill the heap.
 */
function withCrlf(raw: Buffer): Buffer {
  const isBare = (at: number) => (raw[at] === LF ? raw[at - 1] !== CR : raw[at] === CR && raw[at + 1] !== LF);
  let bare = 0;
  for (let at = 0; at < raw.length; at++) if (isBare(at)) bare++;
  if (bare === 0) return raw;
  const whole = Buffer.allocUnsafe(raw.length + bare);
  let end = 0;
  for (let at = 0; at < raw.length; at++) {
    if (isBare(at)) {
      whole[end++] = CR;
      whole[end++] = LF;
    } else whole[end++] = raw[at]!;
  }
  return whole;
}
