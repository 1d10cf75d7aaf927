// Serves the `send_email` bindings of one app, at the app's own socket.
import type { IncomingMessage, ServerResponse } from 'node:http';
import { AppCalls, type Shared as SharedByAll } from '../app-services/app-calls.ts';
import { answerHttp, bodyOf, type HttpAnswerer } from '../app-services/app-service-http.ts';
import type { ReservedMemory } from '../app-services/budget.ts';
import type { SocketHandle } from '../app-services/listening-socket.ts';
import { log, reason } from '../log.ts';
import { QueueFull } from '../queues/fair-queue.ts';
import { comparable, type Senders } from './addresses.ts';
import { DEADLINE_MS, deliver } from './deliver.ts';
import {
  internal,
  invalid,
  MailError,
  rateExceeded,
  recipientNotAllowed,
  refusalBody,
  senderNotVerified,
  tooLarge,
} from './errors.ts';
import { BINDING_HEADER, type Restrictions, readBindingHeader } from './headers.ts';
import { MESSAGE_BYTES, type Message, messageOf, parseJson } from './message.ts';
import type { Rates } from './rates.ts';
import { requireSender } from './sender.ts';
import type { SmtpServer } from './smtp-server.ts';

export interface MailServiceOptions {
  server: SmtpServer;
  senders: Senders;
}

/** Maximum bytes of a request: an e-mail in base64, inside JSON. */
const ASKED_BYTES = 2 * MESSAGE_BYTES;
/** Memory for an e-mail's decoded parts and its composed form, as a multiple of the request's length. */
const COPIES = 3;
/** Maximum concurrent e-mails of an app. */
const AT_ONCE = 8;
/** Timeout for receiving a request, in ms. */
const ASKED_MS = 60_000;
const LIMITS = {
  // Large, because the binding's header contains all addresses that it allows.
  maxHeaderSize: 128 * 1024,
  headersTimeout: ASKED_MS,
  requestTimeout: ASKED_MS,
  silenceMs: ASKED_MS + DEADLINE_MS,
  connections: 128,
};

export interface Shared extends SharedByAll {
  /** Rate limits that the app and its previews share. */
  rates: Rates;
}

export class AppServer {
  readonly #options: MailServiceOptions;
  readonly #shared: Shared;
  readonly #calls: AppCalls;

  private constructor(options: MailServiceOptions, shared: Shared) {
    this.#options = options;
    this.#shared = shared;
    const tooMany = `An app may send at most ${AT_ONCE} e-mails at a time.`;
    this.#calls = new AppCalls(shared, { atOnce: AT_ONCE, tooMany, noCapacity: rateExceeded, refuse });
  }

  /** Listens at a socket that only the app can reach. */
  static listen(listener: SocketHandle, options: MailServiceOptions, shared: Shared): Promise<HttpAnswerer> {
    const server = new AppServer(options, shared);
    return answerHttp(listener, LIMITS, (request, response) => void server.#answer(request, response));
  }

  #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    return this.#calls.run(request, response, async (held, left) => {
      const message = await this.#read(request, held);
      await this.#inTurn(message, left);
      answer(response, 200, JSON.stringify({ messageId: message.id }));
    });
  }

  /**
   * Reads and checks the e-mail of a request, and counts its recipients in the rate limits.
   * @throws {MailError} when it is invalid or may not be sent
   */
  async #read(request: IncomingMessage, held: ReservedMemory): Promise<Message> {
    const binding = request.headers[BINDING_HEADER];
    if (request.method !== 'POST' || typeof binding !== 'string') throw invalid('Only send() is supported.');
    const restrictions = readBindingHeader(binding);
    const tooMuch = () => tooLarge(`An e-mail may have at most ${MESSAGE_BYTES} bytes.`);
    const text = await bodyOf(request, { bytes: ASKED_BYTES, tooLarge: tooMuch, held });
    if (!held.take(COPIES * text.length)) held.check();
    const message = await messageOf(parsed(text), restrictions.destination_address);
    this.#requireAllowed(message, restrictions);
    this.#shared.rates.take(message.to.length);
    return message;
  }

  #requireAllowed({ from, to }: Message, restrictions: Restrictions): void {
    const { destination_address, allowed_destination_addresses, allowed_sender_addresses } = restrictions;
    const isAmong = (address: string, list: string[] | undefined) =>
      list === undefined || list.some((each) => comparable(each) === comparable(address));
    if (!isAmong(from, allowed_sender_addresses))
      throw senderNotVerified(`${from} is not among the "allowed_sender_addresses" of the binding.`);
    const only = destination_address === undefined ? undefined : [destination_address];
    for (const address of to)
      if (!isAmong(address, only) || !isAmong(address, allowed_destination_addresses))
        throw recipientNotAllowed(`The binding may not send to ${address}.`);
    requireSender(this.#options.senders, from);
  }

  /** Queues and delivers an e-mail. A delivery that has begun continues when the client disconnects. */
  async #inTurn(message: Message, left: AbortSignal): Promise<void> {
    const { owner, queue } = this.#shared;
    const late = AbortSignal.timeout(DEADLINE_MS);
    const signal = AbortSignal.any([left, late]);
    let hasBegun = false;
    try {
      await queue.run({ owner, signal }, () => {
        hasBegun = true;
        return deliver(this.#options.server, message);
      });
    } catch (error) {
      if (error instanceof QueueFull) throw rateExceeded(`The e-mail was not sent: ${error.message}.`);
      if (hasBegun || !late.aborted) throw error;
      throw rateExceeded(
        `The e-mail was not sent: it waited ${DEADLINE_MS / 1000} s for other e-mails of the account.`,
      );
    }
  }
}

function refuse(response: ServerResponse, error: unknown): void {
  if (!(error instanceof MailError))
    log('warn', 'a call of the mail service failed', { error: reason(error) });
  const refusal = error instanceof MailError ? error : internal('The e-mail could not be sent.');
  answer(response, refusal.status, refusalBody(refusal));
}

function answer(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body);
}

function parsed(text: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    if (error instanceof MailError) throw error;
    throw invalid('The request is not valid JSON.');
  }
}
