// One request and its response: proxied to a process or another host, or answered by the gateway itself.
import type { Socket } from 'node:net';
import { wallClock } from '../sockets/clock.ts';
import { reset, send } from '../sockets/gateway-socket.ts';
import { type Answer, refusalAnswer, statusLine } from './answers.ts';
import type { CarriedRequest, Connection } from './connection.ts';
import { type PartialAnswer, partialAnswer, typedAnswer } from './http/body/asset-answer.ts';
import type { AnswerHead } from './http/head/answer-head.ts';
import { countryOfHeader } from './http/head/cf.ts';
import { headerValue } from './http/head/fields.ts';
import type { RequestHead } from './http/head/head.ts';
import {
  answerHead,
  answerLines,
  CLOSES,
  dateLine,
  forwardedHeaders,
  requestHead,
} from './http/head/headers.ts';
import { HOP_AGAIN, HOP_PARENT, HOP_SOCKET } from './http/head/hop-names.ts';
import { hostsHeaders } from './http/head/hosts-headers.ts';
import type { ForwardedHeaders } from './http/head/identified-lines.ts';
import { Outgoing } from './http/head/outgoing.ts';
import { serviceHeaders } from './http/head/service-headers.ts';
import { Tally } from './log/byte-counters.ts';
import { clientInfoOf } from './log/client-info.ts';
import type { RequestRecord } from './log/record.ts';
import { CLOSING, failure, HOST_BROKE_OFF, NO_ENTRYPOINT, NOT_HTTP, type Refusal } from './refusals.ts';
import type { Call, Spans } from './target.ts';
import type { Backend, Hop } from './upstream/backend.ts';
import type { QueuedRequest } from './upstream/request-queue.ts';
import { switchingHead, Tunnel } from './upstream/tunnel.ts';
import type { Upstream } from './upstream/upstream.ts';
import type { AnswerReader, Failure, UpstreamConnection } from './upstream/upstream-connection.ts';

/** The gateway, as an exchange sees it. */
export interface ExchangeOwner {
  /** Whether the gateway drains. Then new requests are refused, except calls of apps. Connections close after a response. */
  readonly closing: boolean;
  /** Whether each connection closes after its next response, while new requests are still served. */
  readonly leaving: boolean;
  /** Whether the client expects JSON-RPC responses. */
  isRpc(head: RequestHead): boolean;
  /** Asks the backend again whether to forward the request. */
  admit(exchange: Exchange): void;
  /** Queues the request. Asks the backend again when `ready` settles, which never rejects. */
  hold(exchange: Exchange, ready: Promise<void>): void;
  /** Called when the exchange is over; its connection may carry the next one. */
  ended(exchange: Exchange): void;
}

const SAFE_METHODS = new Set(['GET', 'HEAD', 'OPTIONS']);
/** Maximum repeats of a request for which another host has accepted a connection. */
const TAKEN_AGAIN_MAX = 3;

export class Exchange implements AnswerReader, CarriedRequest, QueuedRequest {
  readonly head: RequestHead;
  readonly tally = new Tally();
  site = '';
  readonly connection: Connection;
  /** Decides on the request's admission; null before the request is routed, and when the gateway answers it. */
  backend: Backend | null = null;
  /** Set when the request is a call (see `Call`); null for other requests. */
  call: Call | null = null;
  /** The key under which `Shares` counts the request; null when it is not counted. */
  share: string | null = null;
  /** Called once when the client leaves while the request is queued. */
  onGone: (() => void) | null = null;
  onKept: (() => void) | null = null;
  heldSince: number | null = null;
  heldMs = 0;
  readonly #owner: ExchangeOwner;
  readonly #forwarded: ForwardedHeaders;
  #upstream: Upstream | null = null;
  /** Set when the request was forwarded to another host; null when it was not. */
  #hop: Hop | null = null;
  #process: UpstreamConnection | null = null;
  /** Decrements the upstream's count of requests in flight. */
  #release: (() => void) | null = null;
  /** The request to the process, while there is more to send. */
  #request: Outgoing | null = null;
  /** The response to the client; null before it begins. */
  #response: Outgoing | null = null;
  /** The part of the process's response that is sent to the client; null for the whole response. */
  #part: PartialAnswer | null = null;
  #tunnel: Tunnel | null = null;
  #over = false;
  #retried = false;
  /** How often another host has accepted a connection for the request, and has not answered or has sent the request back. */
  #unanswered = 0;
  /** Why the gateway refused the request; null when it did not. */
  #refused: string | null = null;
  #continued = false;
  /** Whether the request's body is read from the client. */
  #takesBody = false;
  #blocked = false;
  /** Whether the whole response was written. */
  #answered = false;

  constructor(owner: ExchangeOwner, connection: Connection, head: RequestHead) {
    this.#owner = owner;
    this.connection = connection;
    this.head = head;
    if (connection.isOfHost) this.#forwarded = hostsHeaders(head, connection.isSampled);
    else if (connection.resolve !== null) this.#forwarded = serviceHeaders(head, connection.isSampled);
    else this.#forwarded = forwardedHeaders(head, connection);
  }

  get method(): string {
    return this.head.method;
  }

  get upgrades(): boolean {
    return this.head.upgrade !== null;
  }

  get socketName(): string | null {
    // Another host has one socket only, and reads the name of the target's socket in a header.
    return this.#hop === null ? (this.call?.socketName ?? null) : null;
  }

  /** The request's own span, and its caller's. */
  get spans(): Spans {
    return this.#forwarded;
  }

  get #isEndless(): boolean {
    const { contentType = '' } = this.tally;
    return this.backend?.streamsForEver === true && contentType.startsWith('text/event-stream');
  }

  /** The client's address, which a trusted proxy may have reported. */
  get client(): string {
    return this.#forwarded.client;
  }

  get requestId(): string {
    return this.#forwarded.requestId;
  }

  record(): RequestRecord {
    const { head, tally } = this;
    const client = this.call?.client ?? this.client;
    head.fields.clientInfo ??= clientInfoOf(head, this.connection, client, this.#country());
    const cell = this.#upstream;
    const isCold = cell !== null && cell.readyAt > tally.startedAt;
    return {
      endedAt: wallClock(),
      site: this.site,
      method: head.method,
      path: head.path,
      clientInfo: head.fields.clientInfo,
      status: tally.status,
      durationMs: tally.durationMs,
      heldMs: this.heldMs,
      cellStart: cell === null ? null : isCold ? 'cold' : 'warm',
      wakeMs: isCold ? cell.startMs : 0,
      release: cell === null ? null : cell.release,
      bytesIn: tally.bytesIn,
      bytesOut: tally.bytesOut,
      contentType: tally.contentType,
      traceId: this.#forwarded.traceId,
      spanId: this.#forwarded.spanId,
      parentSpanId: this.#forwarded.parentSpanId,
      requestId: this.requestId,
      refused: this.#refused,
      upgraded: this.#tunnel !== null,
      home: this.#hop?.host ?? null,
    };
  }

  #country(): string | null {
    // The host that accepted the client has looked up the country already.
    if (this.connection.isOfHost) return countryOfHeader(headerValue(this.head.headers, 'cf-ipcountry'));
    return this.head.fields.crossing?.country ?? null;
  }

  get over(): boolean {
    return this.#over;
  }

  get blocked(): boolean {
    return this.#blocked;
  }

  /** Sends the request to a process, or to another host. The upstream's connection then calls the `on…` methods. */
  forward(upstream: Upstream, hop: Hop | null = null): void {
    if (this.#over) return;
    this.#hop = hop;
    if (!upstream.hasSocket(this.socketName)) {
      this.refuse(NO_ENTRYPOINT);
      return;
    }
    this.#upstream = upstream;
    this.#release = upstream.begin();
    upstream.ask(this);
  }

  onConnection(process: UpstreamConnection): void {
    const { head } = this;
    this.#process = process;
    if (!this.#asksFirst) this.#continue();
    const parts = requestHead(head, this.#forwarded.lines, this.#ownLines());
    this.#request = new Outgoing(process.socket, parts, head.framing === 'chunked');
    if (head.hasBody && !this.#asksFirst) this.#takeBody();
    // The head is sent at once; the body may come later.
    if (this.#request !== null) this.sendBody([], !head.hasBody);
  }

  /** Whether the body is sent only once another host asks for it with a 100. Until then the request can be sent again. */
  get #asksFirst(): boolean {
    return this.#hop !== null && this.head.hasBody;
  }

  #continue(): void {
    const { head, connection } = this;
    if (head.awaitsContinue && !this.#continued) send(connection.socket, 'HTTP/1.1 100 Continue\r\n\r\n');
    this.#continued = true;
  }

  #takeBody(): void {
    this.#takesBody = true;
    this.connection.takeBody();
  }

  /** Returns the header lines that depend on the target. */
  #ownLines(): string {
    const name = this.backend?.clientHeader;
    const value = name === undefined ? undefined : headerValue(this.head.headers, name);
    return `${this.call?.lines ?? ''}${value === undefined ? '' : `${name}: ${value}\r\n`}${this.#hopLines()}`;
  }

  #hopLines(): string {
    if (this.#hop === null) return '';
    const { parentSpanId } = this.#forwarded;
    const parentLine = parentSpanId === null ? '' : `${HOP_PARENT}: ${parentSpanId}\r\n`;
    const ownLines = this.#asksFirst ? `${parentLine}expect: 100-continue\r\n` : parentLine;
    if (this.call === null) return this.#hop.lines(false) + ownLines;
    const { socketName, hopLines = '' } = this.call;
    const lines = this.#hop.lines(true) + hopLines + ownLines;
    return socketName === null ? lines : `${lines}${HOP_SOCKET}: ${socketName}\r\n`;
  }

  /** Forwards bytes of the body. Returns false when the buffer of the process's socket is full; `onRoom` is called later. */
  sendBody(pieces: Buffer[], last: boolean): boolean {
    for (const { length } of pieces) this.tally.received(length);
    // The whole response has arrived already, or the request has failed: the rest of the body is dropped.
    if (this.#request === null) return true;
    const room = this.#request.write(pieces, last);
    if (last) {
      this.#request = null;
      this.#process!.sent();
    }
    return room;
  }

  get keptBytes(): number {
    return this.head.bytes + this.connection.keptBytes;
  }

  kept(): void {
    this.onKept?.();
  }

  broken(): void {
    this.#request = null;
    this.#process?.abandon();
    this.#endUpstream();
    if (this.#response?.begun) this.#cut();
    else this.refuse(NOT_HTTP);
  }

  /** Answers without a process. */
  answer({ status, headers, body }: Answer): void {
    if (this.#over) return;
    const bytes = Buffer.from(body);
    let lines = `x-request-id: ${this.requestId}\r\n${dateLine()}`;
    for (const [name, value] of Object.entries(headers)) lines += `${name}: ${value}\r\n`;
    this.tally.status = status;
    this.tally.contentType = headers['content-type'];
    if (this.#decideEnd()) lines += CLOSES;
    const head = `${statusLine(status)}${lines}content-length: ${bytes.length}\r\n\r\n`;
    this.#response = new Outgoing(this.connection.socket, [head], false);
    this.#send(this.head.method === 'HEAD' ? [] : [bytes], true);
  }

  /** Refuses the request, in the form that the client can show. */
  refuse(refusal: Refusal): void {
    if (!this.#over) this.#refused = refusal.reason ?? refusal.code;
    const answer = refusalAnswer(refusal, this.head.headers, this.requestId, this.#owner.isRpc(this.head));
    if (refusal === CLOSING && this.connection.isOfHost) answer.headers[HOP_AGAIN] = '1';
    this.answer(answer);
  }

  gone(): void {
    if (this.#over) return;
    if (this.#process !== null) this.#process.abandon();
    else this.#upstream?.giveUp(this);
    this.#end();
    this.onGone?.();
  }

  checkTunnel(now: number): void {
    this.#tunnel?.check(now);
  }

  /** Gracefully ends an endless event stream, or a tunnel unless it ends by itself. Any other response may finish. */
  endEndless(): void {
    if (this.call?.endsItself !== true) this.#tunnel?.close();
    if (this.#process === null || this.#response === null || !this.#isEndless) return;
    this.#process.abandon();
    this.onBody([], true);
  }

  drained(): void {
    if (!this.#blocked) return;
    this.#blocked = false;
    if (this.#answered) this.#end();
    else this.#process?.resume();
  }

  onRoom(): void {
    if (this.#request !== null) this.connection.resumeBody();
  }

  onInformation(answer: AnswerHead): void {
    if (answer.status === 100 && this.#asksFirst && !this.#takesBody) {
      this.#continue();
      this.#takeBody();
      return;
    }
    // An HTTP/1.0 client would take a 1xx for the final response.
    if (this.head.minorVersion === 0) return;
    const head = `HTTP/1.1 ${answer.status} ${answer.reason}\r\n${answerLines(answer, this.requestId)}\r\n`;
    if (!send(this.connection.socket, head)) this.#block();
  }

  onHead(received: AnswerHead): void {
    if (this.#hop !== null && this.#isSentBack(received)) {
      this.#process!.abandon();
      this.#request = null;
      this.#endUpstream();
      this.#askAgain(this.#hop, true);
      return;
    }
    const whole = typedAnswer(this.head, received);
    if (this.head.fields.isConditional) this.#part = partialAnswer(this.head, whole);
    const answer = this.#part?.head ?? whole;
    this.tally.status = answer.status;
    this.tally.contentType = answer.contentType;
    const chunked = typeof answer.framing === 'string' && this.head.minorVersion > 0;
    const head = answerHead(answer, this.#forwarded.requestIdBytes, chunked, this.#decideEnd());
    this.#response = new Outgoing(this.connection.socket, head, chunked);
    if (this.#owner.closing) this.endEndless();
  }

  onBody(whole: Buffer[], isEnd: boolean): void {
    const pieces = this.#part?.take(whole) ?? whole;
    const last = isEnd || this.#part?.done === true;
    // The client gets no more than this part, so the process must not send the rest.
    if (last && !isEnd) this.#process!.abandon();
    if (last) {
      this.#endUpstream();
      // The rest of the request is read and dropped: some clients send all of it before they read the response.
      if (this.#request !== null) {
        this.#request = null;
        this.connection.resumeBody();
      }
    }
    this.#send(pieces, last);
  }

  onFailure({ sent, stale }: Failure): void {
    this.#request = null;
    this.#endUpstream();
    if (this.#over) return;
    const refusal = this.#upstream?.refusal ?? null;
    if (this.#response?.begun) this.#cut();
    else if (this.#hop !== null) this.#failedElsewhere(this.#hop, sent);
    else if (refusal !== null && sent) this.refuse(refusal);
    else if (stale && !this.#retried && !this.head.hasBody && SAFE_METHODS.has(this.head.method)) {
      this.#retried = true;
      this.#owner.admit(this);
    } else this.refuse(failure(sent));
  }

  /**
   * Called when the other host did not answer. Sends the request again, to the app's current host, if that is safe.
   * Otherwise refuses the request.
   */
  #failedElsewhere(hop: Hop, sent: boolean): void {
    const isSafe = SAFE_METHODS.has(this.head.method) && this.#unanswered < TAKEN_AGAIN_MAX;
    if (!this.#takesBody && (!sent || isSafe)) this.#askAgain(hop, sent);
    else this.refuse(HOST_BROKE_OFF);
  }

  /**
   * Whether the other host shuts down and the request can be sent again. An app may forge the header. This only repeats
   * requests to that app.
   */
  #isSentBack({ status, headers }: AnswerHead): boolean {
    if (status !== CLOSING.status || this.#takesBody || this.#unanswered >= TAKEN_AGAIN_MAX) return false;
    return headerValue(headers, HOP_AGAIN) !== undefined;
  }

  #askAgain(hop: Hop, wasReached: boolean): void {
    if (wasReached) this.#unanswered++;
    this.#owner.hold(this, hop.again(wasReached));
  }

  onSwitch(answer: AnswerHead, upstream: Socket, first: Buffer): void {
    if (this.connection.socket.destroyed) {
      upstream.destroy();
      return;
    }
    const protocol = headerValue(answer.headers, 'upgrade') ?? this.head.upgrade!;
    const { stream: client, early } = this.connection.handOver();
    this.tally.countAll(client);
    this.tally.received(early.length);
    this.tally.status = answer.status;
    this.tally.contentType = answer.contentType;
    client.write(switchingHead(protocol, answerLines(answer, this.requestId)), 'latin1');
    const tunnel = new Tunnel(client, upstream, protocol.toLowerCase(), () => {
      untrack();
      if (!this.#over) this.#end();
    });
    this.#tunnel = tunnel;
    const isCall = this.call?.endsItself === true;
    const close = () => (isCall ? undefined : tunnel.close());
    const untrack = this.#upstream!.track({ close, destroy: () => tunnel.destroy() });
    if (this.#owner.closing) close();
    this.#endUpstream();
    if (first.length > 0) tunnel.fromProcess(first);
    if (early.length > 0) tunnel.fromClient(early);
  }

  /** Decides whether the connection closes after the response that begins now. */
  #decideEnd(): boolean {
    const { connection } = this;
    // While `uploading`, the unread rest of the request's body would be parsed as the next request.
    const { closing, leaving } = this.#owner;
    if (connection.uploading || this.upgrades || closing || leaving) connection.ending = true;
    return connection.ending;
  }

  #send(pieces: Buffer[], last: boolean): void {
    for (const { length } of pieces) this.tally.sent(length);
    const room = this.#response!.write(pieces, last);
    this.#answered = last;
    if (!room) this.#block();
    else if (last) this.#end();
  }

  /** Applies backpressure: stops reading the process's response until the buffer of the client's socket is sent. */
  #block(): void {
    this.#blocked = true;
    this.#process?.pause();
    this.connection.blocked();
  }

  /** Breaks off the response, so that the client does not take it for complete. */
  #cut(): void {
    const { socket } = this.connection;
    // Without chunks or a length, only a reset marks a response as incomplete.
    if (this.head.minorVersion === 0) reset(socket);
    else socket.destroy();
  }

  #endUpstream(): void {
    this.#process = null;
    this.#release?.();
    this.#release = null;
  }

  #end(): void {
    this.#over = true;
    this.call?.ended();
    this.#request = null;
    this.#endUpstream();
    this.#owner.ended(this);
  }
}
