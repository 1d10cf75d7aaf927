// One client's connection: reads its requests one at a time, and closes it so that the last response still arrives.
import type { Socket } from 'node:net';
import { plainAddress } from '../isolation/address-ranges.ts';
import { monotonic } from '../sockets/clock.ts';
import {
  acceptSocket,
  ownCopy,
  READ_AHEAD_BYTES,
  type SocketUser,
  send,
  toStream,
} from '../sockets/gateway-socket.ts';
import { rawRefusal } from './answers.ts';
import type { TrustedProxies } from './client.ts';
import { Backlog } from './http/body/backlog.ts';
import { BodyReader } from './http/body/body.ts';
import { type RequestHead, withoutEmptyLines } from './http/head/head.ts';
import { HeadReader } from './http/head/head-reader.ts';
import type { Caller } from './http/head/headers.ts';
import { randomHex } from './http/head/ids.ts';
import { cutAddress } from './limits/networks.ts';
import {
  HEAD_BYTES,
  HEAD_TIMEOUT_MS,
  HEAD_TOO_SLOW,
  headTooLarge,
  NOT_HTTP,
  type OwnRefusal,
} from './refusals.ts';
import type { Resolve } from './target.ts';
import type { Queued } from './upstream/queue.ts';

/** Keep-alive timeout of an idle connection, in ms. Longer than Caddy's 2 minutes, so that Caddy closes first. */
const KEEP_ALIVE_MS = 125_000;
/** How long a request's or a response's body may make no progress until its connection is destroyed, in ms. */
const BODY_IDLE_MS = 120_000;
/** How long a process may stop reading a request's body until the connection is destroyed, in ms. */
const STOPPED_BODY_MS = 900_000;
/** How long incoming bytes are read and dropped after the last response, in ms. */
const LINGER_MS = 2_000;
/** A connection is throttled when more than this many consecutive requests were rate-limited. */
const REFUSALS = 3;
/**
 * Minimum delay of the next request on a throttled connection, in ms. Without it, clients that retry at once on hundreds
 * of connections keep the gateway busy with refusals.
 */
const THROTTLE_MS = 500;
/** Random extra delay, in ms, so that connections refused together are not read again together. */
const THROTTLE_JITTER_MS = 1_000;
/** How long an idle connection caches its last header fields for the next request, in ms. */
const REMEMBERED_MS = 5_000;
/** Longest head from another host, in bytes. That host adds lines, and may percent-encode characters of the path. */
const HOSTS_HEAD_BYTES = 1.5 * HEAD_BYTES;
/** A connection with this many unread bytes is paused. They belong to an unforwarded body, or to pipelined requests. */
const WAITING_BYTES = 64 * 1024;

/** `head`: waits for a request. `exchange`: a request is in flight. `closing`: input is dropped. `tunnel`: not HTTP. */
type Phase = 'head' | 'exchange' | 'closing' | 'tunnel';

/** A request in flight with its response, as the connection sees it. */
export interface CarriedRequest {
  /** Whether the buffer of the client's socket is full. */
  readonly blocked: boolean;
  /**
   * Forwards bytes of the body. Returns false when the buffer of the process's socket is full. Once it has room,
   * `Connection.resumeBody` is called.
   */
  sendBody(pieces: Buffer[], last: boolean): boolean;
  /** Called when more bytes were buffered: the connection's `keptBytes` has changed. */
  kept(): void;
  /** Called when the body does not match its framing. */
  broken(): void;
  /** Called when all bytes that the client's socket had buffered are sent. */
  drained(): void;
  /** Called when the client has ended its side, or the connection has closed. */
  gone(): void;
  /** Destroys the tunnel if it has been blocked too long at `now`, on the clock of `performance.now()`. */
  checkTunnel(now: number): void;
  /** Gracefully ends an event stream or a tunnel that would never end by itself. */
  endEndless(): void;
}

/** The gateway, as a connection sees it. */
export interface ConnectionOwner {
  /** Whether spans of requests are exported. */
  readonly isSampled: boolean;
  /** Returns the location of an address, as fields of `request.cf`. */
  locate(address: string): string;
  begin(connection: Connection, head: RequestHead): void;
  /** Called when the connection buffers `more` bytes more; negative for fewer. This may destroy the connection. */
  countKept(more: number): void;
  /** Called when the connection has closed, or has sent all of its output. */
  closed(connection: Connection): void;
}

/**
 * Where a connection was accepted. `port`: a TCP port for clients. `host`: a TCP port for other hosts. `proxy`: a unix
 * socket that only our own proxy uses. A function: a unix socket for the calls of one app, or of a process that receives
 * e-mails or TCP connections. The function routes these calls.
 */
export type Entrance = 'port' | 'host' | 'proxy' | Resolve;

export class Connection implements Caller, Queued<Connection>, SocketUser {
  readonly socket: Socket;
  readonly peer: string;
  readonly trusted: boolean;
  readonly isOwnProxy: boolean;
  /** Whether the connection comes from another host, whose headers describe the client. */
  readonly isOfHost: boolean;
  /** Routes its requests, when it was accepted at a unix socket for calls; null for all other connections. */
  readonly resolve: Resolve | null;
  /** The peer's address, truncated for logs. */
  readonly network: string;
  queue: object | null = null;
  before: Connection | null = null;
  after: Connection | null = null;
  /** The request in flight; null between requests. */
  exchange: CarriedRequest | null = null;
  /** Whether the connection closes after the current response. */
  ending = false;
  /** Whether a rate limit refused the request in flight. */
  limited = false;
  readonly #owner: ConnectionOwner;
  readonly #proxies: TrustedProxies;
  #phase: Phase = 'head';
  /** When the client last made progress, on the clock of `performance.now()`. */
  #progressAt = monotonic();
  /** Whether a request was answered before. */
  #used = false;
  /** Received bytes that neither a head nor a body reader has taken yet. */
  readonly #waiting = new Backlog();
  readonly #heads: HeadReader;
  /** The value of `keptBytes` at the last report to the owner. */
  #reportedBytes = 0;
  /** Unsent bytes of a response that the client reads too slowly; 0 while it is not blocked. */
  #blockedBytes = 0;
  /** Reads the body of the request in flight; null without a body, and once the whole body was read. */
  #body: BodyReader | null = null;
  /** Whether the body is forwarded now. If not, it waits in `#waiting`. */
  #forwardsBody = false;
  /** Whether backpressure from the process has paused the body. */
  #bodyPaused = false;
  #reading = true;
  /** Consecutive requests that a rate limit refused. */
  #refusals = 0;
  /** Whether the next request is delayed because of `#refusals`. */
  #throttled = false;

  constructor(owner: ConnectionOwner, accepted: Socket, proxies: TrustedProxies, entrance: Entrance) {
    this.#owner = owner;
    this.socket = accepted;
    acceptSocket(accepted, this);
    const own = entrance !== 'port' && entrance !== 'host';
    this.isOfHost = entrance === 'host';
    // Another host writes new ids into each head, so no head repeats the fields of the previous head.
    this.#heads = new HeadReader(!this.isOfHost);
    this.isOwnProxy = entrance === 'proxy';
    this.resolve = typeof entrance === 'function' ? entrance : null;
    this.peer = own ? '127.0.0.1' : plainAddress(accepted.remoteAddress ?? 'unknown');
    this.network = cutAddress(this.peer);
    this.#proxies = proxies;
    this.trusted = own || proxies.has(this.peer);
  }

  client(forwardedFor: string | undefined): string {
    return this.#proxies.client(forwardedFor, this.peer);
  }

  get isSampled(): boolean {
    return this.#owner.isSampled;
  }

  isByTrustedProxy(forwardedFor: string | undefined): boolean {
    return this.isOwnProxy ? this.#proxies.hasSent(forwardedFor) : this.trusted;
  }

  locate(address: string): string {
    return this.#owner.locate(address);
  }

  /**
   * Number of bytes that this connection keeps in memory: received ones that are not parsed yet, those that a paused socket
   * may buffer, and unsent ones of a blocked response.
   */
  get keptBytes(): number {
    return this.#waiting.length + (this.#reading ? 0 : READ_AHEAD_BYTES) + this.#blockedBytes;
  }

  /** Whether a part of the request's body has not been read yet. */
  get uploading(): boolean {
    return this.#body !== null;
  }

  /** Whether the connection can be closed without losing a request or a response. */
  get done(): boolean {
    return this.exchange === null && (this.#phase !== 'closing' || this.socket.writableFinished);
  }

  /** Starts to forward the request's body to the exchange. */
  takeBody(): void {
    this.#forwardsBody = true;
    this.#progressAt = monotonic();
    if (this.#waiting.length > 0) this.#readBody(this.#waiting.take());
    this.#updateReading();
  }

  /** Resumes the body after backpressure. */
  resumeBody(): void {
    this.#bodyPaused = false;
    this.#progressAt = monotonic();
    this.#updateReading();
  }

  /** Counts the unsent bytes of a response that backpressure blocks now, and restarts the client's idle timeout. */
  blocked(): void {
    this.#progressAt = monotonic();
    this.#blockedBytes = this.socket.writableLength;
    this.#reportBytes();
  }

  /** Detaches the socket as a stream for another protocol. Also returns the bytes of that protocol that have arrived. */
  handOver(): { stream: Socket; early: Buffer } {
    this.#phase = 'tunnel';
    const early = ownCopy(this.#waiting.take());
    this.#updateReading();
    return { stream: toStream(this.socket), early };
  }

  /** Called when the exchange is over: reads the next request, or closes the connection. */
  exchanged(): void {
    this.exchange = null;
    this.#body = null;
    this.#forwardsBody = false;
    this.#bodyPaused = false;
    if (this.#phase !== 'exchange') return;
    if (this.ending) {
      this.close();
      return;
    }
    this.#phase = 'head';
    this.#used = true;
    this.#progressAt = monotonic();
    this.#refusals = this.limited ? this.#refusals + 1 : 0;
    this.limited = false;
    // A trusted proxy carries many clients, so it is not throttled.
    this.#throttled = this.#refusals > REFUSALS && !this.trusted;
    if (this.#throttled)
      setTimeout(this.#onThrottleEnd, THROTTLE_MS + Math.random() * THROTTLE_JITTER_MS).unref();
    this.#updateReading();
    // In a later turn of the event loop: pipelined requests that the gateway answers itself must not block other clients.
    if (this.#waiting.length > 0 && !this.#throttled) setImmediate(this.#onWaiting);
  }

  /** Sends a refusal, when no request was parsed, and closes the connection. */
  refuse(refusal: OwnRefusal): void {
    send(this.socket, rawRefusal(refusal, randomHex(16)));
    this.close();
  }

  /**
   * Ends the connection's output. Input is read and dropped until the client ends its side, or `LINGER_MS` after the last
   * output: closing a socket with unread bytes resets the connection, and the client may lose the response.
   */
  close(): void {
    this.#phase = 'closing';
    this.#progressAt = monotonic();
    this.#waiting.take();
    this.#updateReading();
    this.socket.end();
  }

  /** Applies the timeouts at `now`, on the clock of `performance.now()`. */
  check(now: number): void {
    const idle = now - this.#progressAt;
    if (idle > REMEMBERED_MS) this.#heads.forget();
    if (this.#phase === 'head') this.#checkHead(idle);
    else if (this.#phase === 'tunnel') this.exchange?.checkTunnel(now);
    else if (this.#phase === 'closing') {
      if (idle > (this.socket.writableFinished ? LINGER_MS : BODY_IDLE_MS)) this.socket.destroy();
    } else if (this.#phase === 'exchange' && idle > BODY_IDLE_MS) {
      const awaited = this.#body !== null && this.#forwardsBody && !this.#bodyPaused;
      // The buffer is full of pipelined requests. A paused socket does not report that its client has left.
      const crowded = this.#body === null && !this.#reading;
      const forgotten = this.#bodyPaused && idle > STOPPED_BODY_MS;
      if (awaited || crowded || forgotten || this.exchange!.blocked) this.socket.destroy();
    }
  }

  #checkHead(idle: number): void {
    if (this.#waiting.length > 0) {
      if (idle > HEAD_TIMEOUT_MS) this.refuse(HEAD_TOO_SLOW);
    } else if (idle > (this.#used ? KEEP_ALIVE_MS : HEAD_TIMEOUT_MS)) this.socket.destroy();
  }

  onRead(bytes: Buffer): void {
    if (this.#phase === 'closing') return;
    this.#take(bytes);
    this.#waiting.keep();
    this.#updateReading();
  }

  #take(chunk: Buffer): void {
    if (this.#forwardsBody && this.#body !== null) {
      this.#progressAt = monotonic();
      this.#readBody(chunk);
    } else if (this.#phase === 'head') {
      const begins = this.#waiting.length === 0;
      this.#waiting.add(begins ? withoutEmptyLines(chunk) : chunk);
      if (this.#waiting.length === 0) return;
      if (begins) this.#progressAt = monotonic();
      this.#readHead();
    } else {
      this.#waiting.add(chunk);
      this.exchange?.kept();
    }
  }

  readonly #onThrottleEnd = (): void => {
    this.#throttled = false;
    if (this.#waiting.length > 0) this.#onWaiting();
    else this.#updateReading();
  };

  readonly #onWaiting = (): void => {
    if (this.#phase === 'head') this.#readHead();
    this.#updateReading();
  };

  #readHead(): void {
    const waiting = this.#waiting;
    const { bytes } = waiting;
    const empty = bytes.length - withoutEmptyLines(bytes).length;
    if (empty > 0) waiting.drop(empty);
    const most = this.isOfHost ? HOSTS_HEAD_BYTES : HEAD_BYTES;
    const head = this.#heads.take(waiting, most);
    if (head === null) {
      if (!waiting.mayBeHead(most)) this.refuse(NOT_HTTP);
      else if (waiting.length > most) this.refuse(headTooLarge(most));
      return;
    }
    if ('refusal' in head) {
      this.refuse(head.refusal);
      return;
    }
    this.#phase = 'exchange';
    this.ending = head.minorVersion === 0 || head.options?.has('close') === true;
    this.#body = head.hasBody ? new BodyReader(head.framing) : null;
    this.#owner.begin(this, head);
  }

  #readBody(bytes: Buffer): void {
    const exchange = this.exchange!;
    const body = this.#body!;
    const pieces: Buffer[] = [];
    const taken = body.read(bytes, pieces);
    if (taken === -1) {
      exchange.broken();
      return;
    }
    if (body.done) {
      this.#body = null;
      if (taken < bytes.length) this.#waiting.put(bytes.subarray(taken));
    }
    if (!exchange.sendBody(pieces, body.done)) this.#bodyPaused = !body.done;
  }

  /** Pauses or resumes reading. A paused socket does not report its end. */
  #updateReading(): void {
    const isFree = !this.#bodyPaused && !this.#throttled && this.#waiting.length < WAITING_BYTES;
    const reads = this.#phase === 'closing' || isFree;
    const changes = reads !== this.#reading;
    this.#reading = reads;
    this.#reportBytes();
    if (!changes) return;
    if (reads) this.socket.resume();
    else this.socket.pause();
  }

  #reportBytes(): void {
    const more = this.keptBytes - this.#reportedBytes;
    if (more === 0) return;
    this.#reportedBytes += more;
    this.#owner.countKept(more);
  }

  /**
   * Called when the client has ended its side. If a response is pending, closes the connection and aborts the request, as
   * other proxies do.
   */
  onEnd(): void {
    if (this.#phase === 'exchange') {
      this.#phase = 'closing';
      this.socket.destroy();
      this.exchange!.gone();
    } else if (this.#phase === 'head') {
      // Both sides are done. Ending our side first would cost another system call.
      if (this.socket.writableLength === 0) this.socket.destroy();
      else {
        this.close();
        this.socket.destroySoon();
      }
    } else this.socket.destroySoon();
  }

  onDrain(): void {
    this.#progressAt = monotonic();
    this.#blockedBytes = 0;
    this.#reportBytes();
    this.exchange?.drained();
  }

  onFinish(): void {
    this.#progressAt = monotonic();
    this.#owner.closed(this);
  }

  onClose(): void {
    this.#phase = 'closing';
    this.#waiting.take();
    this.#blockedBytes = 0;
    this.#updateReading();
    this.exchange?.gone();
    this.#owner.closed(this);
  }
}
