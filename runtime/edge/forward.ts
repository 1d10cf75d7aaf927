// One request on its way through the gateway: to a process and back, or to an answer of our own.
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Dispatcher } from 'undici';
import { type Answer, type Refusal, refusalAnswer } from './answers.ts';
import type { Backend } from './backend.ts';
import type { Connection } from './connection.ts';
import { headerValue, type RequestHead } from './head.ts';
import { answerHeaders, type ForwardedHeaders, forwardedHeaders } from './headers.ts';
import { failure } from './refusals.ts';
import type { GatewayResponse } from './reply.ts';
import { type FinishedRequest, Tally } from './tally.ts';
import { switchingHead, Tunnel, type WaitingSocket } from './tunnel.ts';
import { UploadBody } from './upload.ts';
import { isReusedSocketError, type Upstream } from './upstream.ts';

/** A request that wants another protocol on its connection. */
export interface UpgradeWish {
  /** The `Upgrade` value as received. */
  protocol: string;
  waiting: WaitingSocket;
}

/** What an exchange needs of the gateway. */
export interface ExchangeOwner {
  /** Whether connections end with the answer they carry. */
  readonly closing: boolean;
  /** Asks the backend again. */
  admit(exchange: Exchange): void;
  /** The exchange is over; its connection may carry another. */
  ended(exchange: Exchange): void;
}

/** What makes an exchange. */
export interface ExchangeParts {
  owner: ExchangeOwner;
  connection: Connection;
  request: IncomingMessage;
  response: GatewayResponse;
  head: RequestHead;
  /** Whether the client waits for a 100 before it sends its body. */
  awaitsContinue: boolean;
  upgrade: UpgradeWish | null;
}

const GONE = new Error('the client left');
const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);

/** A request and its answer. It is undici's handler too: one object per request. */
export class Exchange implements Dispatcher.DispatchHandler, FinishedRequest {
  readonly head: RequestHead;
  readonly tally = new Tally();
  site = '';
  readonly connection: Connection;
  /** Who is asked to admit it; null before it is routed. */
  backend: Backend | null = null;
  /** Called once when the client leaves while the request is held. */
  onGone: (() => void) | null = null;
  /** When it was first held, on the clock of `performance.now()`. */
  heldSince: number | null = null;
  readonly #owner: ExchangeOwner;
  readonly #request: IncomingMessage;
  readonly #response: GatewayResponse;
  readonly #upgrade: UpgradeWish | null;
  readonly #forwarded: ForwardedHeaders;
  #awaitsContinue: boolean;
  #upstream: Upstream | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  /** Ends the upstream's count of this request. */
  #release: (() => void) | null = null;
  #tunnel: Tunnel | null = null;
  #over = false;
  /** Whether the process may have seen the request. */
  #sent = false;
  #upstreamAnswers = false;
  #retried = false;
  /** Whether the client has yet to take what was written. */
  #blocked = false;

  constructor(parts: ExchangeParts) {
    this.head = parts.head;
    this.connection = parts.connection;
    this.#owner = parts.owner;
    this.#request = parts.request;
    this.#response = parts.response;
    this.#upgrade = parts.upgrade;
    this.#awaitsContinue = parts.awaitsContinue;
    this.#forwarded = forwardedHeaders(parts.head, parts.connection);
    parts.response.exchange = this;
    parts.response.on('finish', onFinish);
    parts.connection.exchanges.add(this);
  }

  /** The address of whoever asks, which a trusted proxy may have told. */
  get client(): string {
    return this.#forwarded.client;
  }

  get peer(): string {
    return this.connection.peer;
  }

  get protocol(): string {
    return this.#request.httpVersionMinor === 0 ? 'HTTP/1.0' : 'HTTP/1.1';
  }

  get requestId(): string {
    return this.#forwarded.requestId;
  }

  get traceId(): string {
    return this.#forwarded.traceId;
  }

  /** Whether nothing more may be done for it. */
  get over(): boolean {
    return this.#over;
  }

  /** Whether the client has been sent anything of an answer. */
  get answerBegun(): boolean {
    return this.#response.headersSent;
  }

  /** Whether its client has to send or to take bytes before it can go on. */
  get waitsForClient(): boolean {
    return this.#blocked || (this.#uploading() && !this.#request.isPaused());
  }

  /** Sends the request to a process. Everything after is undici's to call. */
  forward(upstream: Upstream): void {
    if (this.#over) return;
    this.#upstream = upstream;
    this.#release = upstream.begin();
    const { head } = this;
    if (this.#awaitsContinue) {
      this.#awaitsContinue = false;
      this.#response.writeContinue();
    }
    upstream.pool.dispatch(
      {
        path: head.target,
        method: head.method,
        headers: this.#forwarded.headers,
        body: head.hasBody ? this.#upload() : null,
        upgrade: this.#upgrade?.protocol ?? null,
      },
      this,
    );
  }

  /** Answers here. */
  answer({ status, headers, body }: Answer): void {
    if (this.#over) return;
    const length = Buffer.byteLength(body);
    const lines = ['x-request-id', this.#forwarded.requestId, 'content-length', String(length)];
    for (const [name, value] of Object.entries(headers)) lines.push(name, value);
    this.#tallyHead(status, lines);
    if (this.head.method !== 'HEAD') this.tally.sent(length);
    this.#response.writeHead(status, this.#closeIfLast(lines));
    this.#response.end(body);
  }

  /** Refuses here, as a page or a problem. */
  refuse(refusal: Refusal): void {
    this.answer(refusalAnswer(refusal, headerValue(this.head.headers, 'accept')));
  }

  /** The connection has closed, or must. */
  gone(): void {
    if (this.#over) return;
    this.#end();
    this.#controller?.abort(GONE);
    this.onGone?.();
  }

  /** Ends a tunnel politely; a plain request is left to finish. */
  closeTunnel(): void {
    this.#tunnel?.close();
  }

  /** The answer has been handed to the system whole, or its tunnel has ended. */
  finished(): void {
    if (!this.#over) this.#end();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#over) controller.abort(GONE);
    else {
      this.#sent = true;
      this.#controller = controller;
    }
  }

  onResponseStarted(): void {
    this.#upstreamAnswers = true;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    _headers: unknown,
    reason?: string,
  ): void {
    const headers = answerHeaders(controller.rawHeaders as Buffer[], status, this.#forwarded.requestId);
    if (status < 200) {
      // An HTTP/1.0 client would take it for the answer.
      if (this.#request.httpVersionMinor > 0) this.#response.writeInformation(status, headers);
      return;
    }
    this.#tallyHead(status, headers);
    this.#response.relayHead(status, reason, this.#closeIfLast(headers));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.tally.sent(chunk.length);
    if (!this.#response.relay(chunk)) this.blocked();
  }

  onResponseEnd(): void {
    this.#endUpstream();
    this.#response.relayEnd();
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#endUpstream();
    if (this.#over) return;
    if (this.#response.headersSent) this.#cut();
    else if (this.#mayRetry(error)) {
      this.#retried = true;
      this.#owner.admit(this);
    } else this.refuse(failure(error, this.#sent));
  }

  onRequestUpgrade(
    controller: Dispatcher.DispatchController,
    status: number,
    _headers: unknown,
    duplex: Duplex,
  ): void {
    const upstream = duplex as Socket;
    const { protocol, waiting } = this.#upgrade!;
    if (this.#over) {
      upstream.destroy();
      return;
    }
    this.#response.detachSocket(waiting.socket);
    this.tally.countAll(waiting.socket);
    const tunnel = new Tunnel(waiting.socket, upstream, protocol.toLowerCase(), () => {
      untrack();
      this.finished();
    });
    this.#tunnel = tunnel;
    const untrack = this.#upstream!.track(tunnel);
    this.#endUpstream();
    const headers = answerHeaders(controller.rawHeaders as Buffer[], status, this.#forwarded.requestId);
    this.#tallyHead(status, headers);
    waiting.socket.write(switchingHead(protocol, headers), 'latin1');
    const early = waiting.take();
    if (early.length > 0) upstream.write(early);
  }

  /** Stops the process until the client has taken what was written. */
  blocked(): void {
    this.#blocked = true;
    this.#controller?.pause();
    this.connection.limitIdle();
    this.#response.once('drain', onDrain);
  }

  /** Goes on after the client has taken what was written. */
  drained(): void {
    this.#blocked = false;
    if (!this.#uploading()) this.connection.allowIdle();
    this.#controller?.resume();
  }

  /** What goes with every head: the client learns whether its connection ends. */
  #closeIfLast(headers: string[]): string[] {
    // What is left of the request's body would be taken for the next request.
    const uploading = this.#uploading();
    if (uploading) this.connection.linger(this.#request);
    if (uploading || this.#owner.closing) {
      headers.push('connection', 'close');
      this.connection.ending = true;
    }
    return headers;
  }

  #tallyHead(status: number, headers: string[]): void {
    this.tally.status = status;
    this.tally.headers = headers;
  }

  #upload(): UploadBody {
    this.connection.limitIdle();
    this.#request.once('end', () => this.connection.allowIdle());
    return new UploadBody(this.#request, this.tally);
  }

  #uploading(): boolean {
    return this.head.hasBody && !this.#request.complete;
  }

  #mayRetry(error: Error): boolean {
    if (this.#retried || this.#upstreamAnswers || this.head.hasBody) return false;
    return SAFE_METHODS.has(this.head.method) && isReusedSocketError(error);
  }

  /** The answer broke off: the client must not take what it has for the whole. */
  #cut(): void {
    const { socket } = this.connection;
    // Without chunks or a length, only a reset tells a broken answer from a whole one.
    if (this.#request.httpVersionMinor === 0) socket.resetAndDestroy();
    else socket.destroy();
  }

  #endUpstream(): void {
    this.#controller = null;
    this.#release?.();
    this.#release = null;
  }

  #end(): void {
    this.#over = true;
    this.#release?.();
    this.#release = null;
    this.connection.exchanges.delete(this);
    this.#owner.ended(this);
  }
}

function onFinish(this: GatewayResponse): void {
  this.exchange!.finished();
}

function onDrain(this: GatewayResponse): void {
  this.exchange!.drained();
}
