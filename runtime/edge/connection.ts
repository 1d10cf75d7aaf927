// One client's connection: takes requests off it, one at a time, and ends it so that the last answer arrives.
import type { Socket } from 'node:net';
import { plainAddress } from '../isolation/address-ranges.ts';
import { BareSocket, ownCopy, type SocketUser } from '../sockets/bare-socket.ts';
import { monotonic } from '../sockets/clock.ts';
import type { SocketHandle } from '../sockets/socket-handle.ts';
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
  HEAD_TOO_LARGE,
  HEAD_TOO_SLOW,
  NOT_HTTP,
  type OwnRefusal,
} from './refusals.ts';
import type { Resolve } from './target.ts';
import type { Queued } from './upstream/queue.ts';

/** How long an idle connection is kept, in ms. Longer than the 2 minutes of Caddy, so that Caddy closes first. */
const KEEP_ALIVE_MS = 125_000;
/** How long a body may stand still, in either direction, before its client is given up, in ms. */
const BODY_IDLE_MS = 120_000;
/** How long a process may leave a body that it has begun to take, in ms. */
const STOPPED_BODY_MS = 900_000;
/** How long what still arrives is read and dropped after the last answer, in ms. */
const LINGER_MS = 2_000;
/**
 * After so many requests in a row that a rate limit refused, the next one is not read for at least so long, in ms: whoever asks
 * again at once, on hundreds of connections, would keep others waiting with nothing but refusals.
 */
const REFUSALS = 3;
const REST_MS = 500;
/** Those that were refused at the same moment are read again over so long a time. In ms. */
const REST_SPREAD_MS = 1_000;
/** How long after a connection last moved its last fields are kept for its next request, in ms. */
const REMEMBERED_MS = 5_000;
/** Most bytes kept of what nobody takes yet: a held body, or requests behind the one that is answered. */
const WAITING_BYTES = 64 * 1024;

/** `head`: a request may come. `exchange`: one is answered. `closing`: nothing is taken. `tunnel`: not HTTP any more. */
type Phase = 'head' | 'exchange' | 'closing' | 'tunnel';

/** A request that a connection carries, and its answer, as the connection sees them. */
export interface CarriedRequest {
  /** Whether the client has yet to take what was written. */
  readonly blocked: boolean;
  /** Sends on what came of the request's body. Returns whether there is room for more; if not, `resumeBody` tells. */
  sendBody(pieces: Buffer[], last: boolean): boolean;
  /** More came that nobody takes yet: the connection's `keptBytes` has changed. */
  kept(): void;
  /** The request's body is not what its framing says. */
  broken(): void;
  /** The client has taken what was written. */
  drained(): void;
  /** The connection has closed, or must. */
  gone(): void;
  /** Gives up a tunnel that has stood still too long at `now`, on the clock of `performance.now()`. */
  checkTunnel(now: number): void;
  /** Ends politely what would not end by itself. */
  endEndless(): void;
}

/** What a connection needs of the gateway. */
export interface ConnectionOwner {
  /** Whether spans of requests are exported. */
  readonly isSampled: boolean;
  /** What is known of where an address is, as fields of `request.cf`. */
  locate(address: string): string;
  begin(connection: Connection, head: RequestHead): void;
  /** It keeps so many bytes more than before, or less. It may be gone afterwards. */
  kept(more: number): void;
  /** It has closed, or has nothing more to say. */
  closed(connection: Connection): void;
}

/**
 * By what a connection came: a port; a unix socket on which only a proxy of ours calls; or one on which only one app calls,
 * whose requests go where the function says.
 */
export type Entrance = 'port' | 'proxy' | Resolve;

export class Connection implements Caller, Queued<Connection>, SocketUser {
  readonly socket: BareSocket;
  readonly peer: string;
  readonly trusted: boolean;
  readonly isOwnProxy: boolean;
  /** Where its requests go, when it is from an app that calls others; null for all other connections. */
  readonly resolve: Resolve | null;
  /** The peer's address, cut to what may be written down. */
  readonly network: string;
  queue: object | null = null;
  before: Connection | null = null;
  after: Connection | null = null;
  /** The one in flight. */
  exchange: CarriedRequest | null = null;
  /** Set with the answer that ends the connection. */
  ending = false;
  /** Set when a rate limit refuses the request in flight. */
  limited = false;
  readonly #owner: ConnectionOwner;
  readonly #proxies: TrustedProxies;
  #phase: Phase = 'head';
  /** When something last moved that its client has to move, on the clock of `performance.now()`. */
  #movedAt = monotonic();
  /** Whether a request was answered before. */
  #used = false;
  /** What came and was not taken. */
  readonly #waiting = new Backlog();
  readonly #heads = new HeadReader();
  /** The bytes of it that its owner knows of. */
  #told = 0;
  /** The body of the request in flight, until it has been read whole. */
  #body: BodyReader | null = null;
  /** Whether the body is wanted now, and not held. */
  #takesBody = false;
  /** Whether the process has no room for more of the body. */
  #stopped = false;
  #reading = true;
  /** Requests in a row that a rate limit refused. */
  #refusals = 0;
  /** Whether the next request has to wait for that. */
  #resting = false;

  constructor(owner: ConnectionOwner, accepted: SocketHandle, proxies: TrustedProxies, entrance: Entrance) {
    this.#owner = owner;
    this.socket = BareSocket.accept(accepted, this);
    const own = entrance !== 'port';
    this.isOwnProxy = entrance === 'proxy';
    this.resolve = typeof entrance === 'function' ? entrance : null;
    this.peer = own ? '127.0.0.1' : plainAddress(this.socket.peer ?? 'unknown');
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

  /** Bytes in memory that nobody has taken yet. */
  get keptBytes(): number {
    return this.#waiting.length;
  }

  /** Whether there is more of the request's body than has been read. */
  get uploading(): boolean {
    return this.#body !== null;
  }

  /** Whether closing it loses nothing. */
  get done(): boolean {
    return this.exchange === null && (this.#phase !== 'closing' || this.socket.finished);
  }

  /** Begins to hand the request's body to the exchange. */
  takeBody(): void {
    this.#takesBody = true;
    this.#movedAt = monotonic();
    if (this.#waiting.length > 0) this.#readBody(this.#waiting.take());
    this.#readOrNot();
  }

  /** There is room for more of the body. */
  resumeBody(): void {
    this.#stopped = false;
    this.#movedAt = monotonic();
    this.#readOrNot();
  }

  /** The client's time to move begins anew. */
  moved(): void {
    this.#movedAt = monotonic();
  }

  /** Gives the socket away as a stream, which emits what comes from now on. Returns also what came of the other protocol. */
  handOver(): { stream: Socket; early: Buffer } {
    this.#phase = 'tunnel';
    const early = ownCopy(this.#waiting.take());
    this.#tell();
    return { stream: this.socket.toStream(), early };
  }

  /** The exchange is over: the next request is taken, or the connection ends. */
  exchanged(): void {
    this.exchange = null;
    this.#body = null;
    this.#takesBody = false;
    this.#stopped = false;
    if (this.#phase !== 'exchange') return;
    if (this.ending) {
      this.close();
      return;
    }
    this.#phase = 'head';
    this.#used = true;
    this.#movedAt = monotonic();
    this.#refusals = this.limited ? this.#refusals + 1 : 0;
    this.limited = false;
    // A proxy comes for many.
    this.#resting = this.#refusals > REFUSALS && !this.trusted;
    if (this.#resting) setTimeout(this.#onRested, REST_MS + Math.random() * REST_SPREAD_MS).unref();
    this.#readOrNot();
    // Not at once: a client must not keep everybody waiting with a batch of requests that are answered here.
    if (this.#waiting.length > 0 && !this.#resting) setImmediate(this.#onWaiting);
  }

  /** Answers what is no request, and ends the connection. */
  refuse(refusal: OwnRefusal): void {
    this.socket.write(rawRefusal(refusal, randomHex(16)));
    this.close();
  }

  /**
   * Ends the connection when what was written has left. What still arrives is dropped for a while, because closing with
   * unread bytes resets the connection and may cost the client the answer.
   */
  close(): void {
    this.#phase = 'closing';
    this.#movedAt = monotonic();
    this.#waiting.take();
    this.#readOrNot();
    this.socket.end();
  }

  /** Gives up a client that has been too slow at `now`, on the clock of `performance.now()`. */
  check(now: number): void {
    const idle = now - this.#movedAt;
    if (idle > REMEMBERED_MS) this.#heads.forget();
    if (this.#phase === 'head') this.#checkHead(idle);
    else if (this.#phase === 'tunnel') this.exchange?.checkTunnel(now);
    else if (this.#phase === 'closing') {
      if (idle > (this.socket.finished ? LINGER_MS : BODY_IDLE_MS)) this.socket.destroy();
    } else if (this.#phase === 'exchange' && idle > BODY_IDLE_MS) {
      const awaited = this.#body !== null && this.#takesBody && !this.#stopped;
      // Only a socket that is read tells that its client has left. Nobody has use for so much behind an unanswered request.
      const crowded = this.#body === null && !this.#reading;
      const forgotten = this.#stopped && idle > STOPPED_BODY_MS;
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
    this.#readOrNot();
  }

  #take(chunk: Buffer): void {
    if (this.#takesBody && this.#body !== null) {
      this.#movedAt = monotonic();
      this.#readBody(chunk);
    } else if (this.#phase === 'head') {
      const begins = this.#waiting.length === 0;
      this.#waiting.add(begins ? withoutEmptyLines(chunk) : chunk);
      if (this.#waiting.length === 0) return;
      if (begins) this.#movedAt = monotonic();
      this.#readHead();
    } else {
      this.#waiting.add(chunk);
      this.exchange?.kept();
    }
  }

  readonly #onRested = (): void => {
    this.#resting = false;
    if (this.#waiting.length > 0) this.#onWaiting();
    else this.#readOrNot();
  };

  readonly #onWaiting = (): void => {
    if (this.#phase === 'head') this.#readHead();
    this.#readOrNot();
  };

  #readHead(): void {
    const waiting = this.#waiting;
    const { bytes } = waiting;
    const empty = bytes.length - withoutEmptyLines(bytes).length;
    if (empty > 0) waiting.drop(empty);
    const head = this.#heads.take(waiting, HEAD_BYTES);
    if (head === null) {
      if (!waiting.mayBeHead(HEAD_BYTES)) this.refuse(NOT_HTTP);
      else if (waiting.length > HEAD_BYTES) this.refuse(HEAD_TOO_LARGE);
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
    if (!exchange.sendBody(pieces, body.done)) this.#stopped = !body.done;
  }

  /** Reads on while there is a use or a place for what comes. A socket that is not read does not tell of its end. */
  #readOrNot(): void {
    this.#tell();
    const isFree = !this.#stopped && !this.#resting && this.#waiting.length < WAITING_BYTES;
    const reads = this.#phase === 'closing' || isFree;
    if (reads === this.#reading) return;
    this.#reading = reads;
    if (reads) this.socket.resume();
    else this.socket.pause();
  }

  #tell(): void {
    const more = this.#waiting.length - this.#told;
    if (more === 0) return;
    this.#told += more;
    this.#owner.kept(more);
  }

  /** The client has ended its side. While it is owed an answer, that is taken for leaving, as other proxies do. */
  onEnd(): void {
    if (this.#phase === 'exchange') {
      this.#phase = 'closing';
      this.socket.destroy();
      this.exchange!.gone();
    } else if (this.#phase === 'head') {
      // Both sides have said all they had to. To end ours first would take another call of the system's.
      if (this.socket.waiting === 0) this.socket.destroy();
      else {
        this.close();
        this.socket.destroySoon();
      }
    } else this.socket.destroySoon();
  }

  onDrain(): void {
    this.#movedAt = monotonic();
    this.exchange?.drained();
  }

  onLost(): void {
    this.socket.destroy();
  }

  onFinish(): void {
    this.#movedAt = monotonic();
    this.#owner.closed(this);
  }

  onClose(): void {
    this.#phase = 'closing';
    this.#waiting.take();
    this.#tell();
    this.exchange?.gone();
    this.#owner.closed(this);
  }
}
