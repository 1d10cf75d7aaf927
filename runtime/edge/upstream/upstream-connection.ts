// One connection to a process, or to another host: sends one request at a time, and parses the responses strictly.
import type { Socket } from 'node:net';
import { monotonic } from '../../sockets/clock.ts';
import {
  connectSocket,
  isInReadBuffer,
  ownCopy,
  type SocketUser,
  toStream,
} from '../../sockets/gateway-socket.ts';
import { Backlog } from '../http/body/backlog.ts';
import { BodyReader } from '../http/body/body.ts';
import { KnownBytes } from '../http/body/known-bytes.ts';
import { type AnswerHead, readAnswerHead } from '../http/head/answer-head.ts';
import { keptBytes } from '../http/head/fields.ts';
import type { Queued } from './queue.ts';

/** Timeout of a connect to a process or to another host, in ms. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Largest head of a response, in bytes. Apps set many cookies. */
const HEAD_BYTES = 64 * 1024;

/** Longest head that is cached for the next response, in bytes. */
const KNOWN_BYTES = 1_024;

/** Where a process listens (a unix socket), or where another host listens (an IPv4 address and a port). */
export type UpstreamAddress = { socketPath: string } | { host: string; port: number };

/** Why there is no complete response. */
export interface Failure {
  /** Whether the process may have seen the request. */
  sent: boolean;
  /** Whether the process may have closed an idle connection just when it was reused. */
  stale: boolean;
}

/** Sends a request and receives its response. */
export interface AnswerReader {
  method: string;
  /** Whether the request asks for a protocol upgrade. */
  upgrades: boolean;
  /** Name of the process's listening socket; null or absent for the default one. */
  socketName?: string | null;
  /** The request may now be written to this connection. */
  onConnection(connection: UpstreamConnection): void;
  /** An interim response: 1xx. */
  onInformation(head: AnswerHead): void;
  /**
   * The connection was upgraded. `socket` emits the bytes of the other protocol. `early`: those that have arrived
   * already.
   */
  onSwitch(head: AnswerHead, socket: Socket, early: Buffer): void;
  /** `onBody` follows at once, even for an empty body. */
  onHead(head: AnswerHead): void;
  /** The reader may use `pieces` only until it returns. */
  onBody(pieces: Buffer[], last: boolean): void;
  /** The response failed; nothing more is called. */
  onFailure(failure: Failure): void;
  /** The socket's buffer has space for more of the request. */
  onRoom(): void;
}

/** Takes a connection back when it is idle, and removes it when it has closed. */
export interface ConnectionPool {
  /** Called when the response on a connection has begun. */
  answered(connection: UpstreamConnection): void;
  put(connection: UpstreamConnection): void;
  remove(connection: UpstreamConnection): void;
}

/** The cached head of a response. Many responses of a process have the same head. */
class KnownHead {
  readonly head: AnswerHead;
  readonly #known: KnownBytes;
  /** The last chunk in the shared read buffer that began with the head; null before the first one. */
  #chunk: Buffer | null = null;
  /** The slice of `#chunk` after the head. */
  #rest: Buffer | null = null;

  constructor(bytes: Buffer, head: AnswerHead) {
    this.#known = new KnownBytes(bytes);
    this.head = head;
  }

  /** Returns the bytes after the head in a chunk that begins with it; null for another chunk. */
  restOf(chunk: Buffer): Buffer | null {
    if (!this.#known.isAt(chunk, 0)) return null;
    if (chunk === this.#chunk) return this.#rest;
    const rest = chunk.subarray(this.#known.bytes.length);
    // A chunk outside the shared read buffer has memory of its own, which must not be retained.
    if (isInReadBuffer(chunk)) {
      this.#chunk = chunk;
      this.#rest = rest;
    }
    return rest;
  }
}

export class UpstreamConnection implements Queued<UpstreamConnection>, SocketUser {
  readonly socket: Socket;
  queue: object | null = null;
  before: UpstreamConnection | null = null;
  after: UpstreamConnection | null = null;
  /** When its latest request was assigned, on the clock of `performance.now()`. */
  givenAt = 0;
  /** Number of idle checks since it became idle. */
  looks = 0;
  /** Name of the process's listening socket that it is connected to; null for the default one. */
  readonly socketName: string | null;
  readonly #pool: ConnectionPool;
  #reader: AnswerReader | null = null;
  /** Whether the whole request was written. */
  #sent = false;
  #connected = false;
  readonly #connecting: NodeJS.Timeout;
  /** Whether it has carried a complete response before. */
  #reused = false;
  /** Whether any byte of the response has arrived. */
  #answers = false;
  /** The part of a head that has arrived. */
  readonly #early = new Backlog();
  #head: AnswerHead | null = null;
  /** The cached head of an earlier response; null before the first one, and when the last head was too long. */
  #known: KnownHead | null = null;
  #body: BodyReader | null = null;

  constructor(pool: ConnectionPool, address: UpstreamAddress, socketName: string | null) {
    this.socketName = socketName;
    this.#pool = pool;
    this.socket = connectSocket(address, this, this.#onConnect);
    this.#connecting = setTimeout(() => this.socket.destroy(), CONNECT_TIMEOUT_MS).unref();
  }

  /** Assigns the connection to one request, which the caller writes to the socket. */
  use(reader: AnswerReader): void {
    this.givenAt = monotonic();
    this.#reader = reader;
    this.#sent = false;
    this.#answers = false;
    this.#head = null;
  }

  /** Call it when the whole request was written. */
  sent(): void {
    this.#sent = true;
  }

  /** Drops the response and closes the connection. */
  abandon(): void {
    this.#reader = null;
    this.socket.destroy();
  }

  pause(): void {
    this.socket.pause();
  }

  resume(): void {
    this.socket.resume();
  }

  onRead(bytes: Buffer): void {
    this.#readAnswers(bytes);
    // After the reading above, because this may start the next request on the connection.
    if (this.#head !== null) this.#pool.answered(this);
  }

  #readAnswers(chunk: Buffer): void {
    let bytes = chunk;
    for (;;) {
      const reader = this.#reader;
      // The process sent bytes that no request asked for.
      if (reader === null) {
        this.socket.destroy();
        return;
      }
      this.#answers = true;
      if (this.#body !== null) {
        this.#readBody(reader, bytes);
        return;
      }
      const rest = this.#readHead(reader, bytes);
      if (rest === null || this.#reader !== reader) return;
      if (this.#body === null && rest.length === 0) return;
      bytes = rest;
    }
  }

  /** Returns the bytes after the head; null when the head is incomplete, invalid, or a 101. */
  #readHead(reader: AnswerReader, chunk: Buffer): Buffer | null {
    // A response to HEAD has no body, although its head may equal the cached head of one with a body.
    const known = reader.method === 'HEAD' || this.#early.length > 0 ? null : this.#known;
    const behind = known?.restOf(chunk) ?? null;
    if (behind !== null) {
      this.#begin(reader, known!.head);
      return behind;
    }
    this.#early.add(chunk);
    const length = this.#early.headLength();
    if (length === -1 && this.#early.length <= HEAD_BYTES) {
      this.#early.keep();
      return null;
    }
    const bytes = this.#early.take();
    const isHead = length !== -1 && length <= HEAD_BYTES;
    const head = isHead ? readAnswerHead(bytes.toString('latin1', 0, length), reader.method) : null;
    if (head === null || (head.status === 101 && !reader.upgrades)) {
      this.socket.destroy();
      return null;
    }
    const rest = bytes.subarray(length);
    if (head.status === 101) {
      this.#switch(reader, head, rest);
      return null;
    }
    if (head.status < 200) {
      reader.onInformation(head);
      return rest;
    }
    if (reader.method !== 'HEAD') this.#know(head, bytes, length);
    this.#begin(reader, head);
    return rest;
  }

  #begin(reader: AnswerReader, head: AnswerHead): void {
    this.#head = head;
    this.#body = new BodyReader(head.framing);
    reader.onHead(head);
  }

  #know(head: AnswerHead, bytes: Buffer, length: number): void {
    this.#known = null;
    if (length > KNOWN_BYTES) return;
    const start = keptBytes(String(head.start));
    this.#known = new KnownHead(bytes.subarray(0, length), { ...head, start });
  }

  #readBody(reader: AnswerReader, bytes: Buffer): void {
    const body = this.#body!;
    const pieces: Buffer[] = [];
    const taken = body.read(bytes, pieces);
    if (taken === -1) this.socket.destroy();
    else if (body.done) this.#finish(reader, pieces, taken === bytes.length);
    else reader.onBody(pieces, false);
  }

  /** Ends a complete response. @param alone whether no bytes followed it */
  #finish(reader: AnswerReader, pieces: Buffer[], alone: boolean): void {
    const reusable = this.#head!.keepsAlive && this.#sent && alone;
    this.#reader = null;
    this.#body = null;
    this.#reused = true;
    reader.onBody(pieces, true);
    if (!reusable) this.socket.destroy();
    // A slow client may have caused a pause.
    else if (this.socket.isPaused()) this.socket.resume();
    if (reusable) this.#pool.put(this);
  }

  #switch(reader: AnswerReader, head: AnswerHead, early: Buffer): void {
    this.#reader = null;
    this.#pool.remove(this);
    reader.onSwitch(head, toStream(this.socket), ownCopy(early));
  }

  readonly #onConnect = (): void => {
    this.#connected = true;
    clearTimeout(this.#connecting);
  };

  onDrain(): void {
    this.#reader?.onRoom();
  }

  /**
   * The process accepts no more of the request, but its response can still be read. Some clients read a response only after
   * they have sent their whole body. So the rest of the body is read, and lost.
   */
  onLost(): void {
    this.#reader?.onRoom();
  }

  onFinish(): void {}

  onEnd(): void {
    const reader = this.#reader;
    if (reader !== null && this.#head?.framing === 'close') this.#finish(reader, [], true);
    this.socket.destroy();
  }

  onClose(): void {
    clearTimeout(this.#connecting);
    this.#pool.remove(this);
    const reader = this.#reader;
    this.#reader = null;
    reader?.onFailure({ sent: this.#connected, stale: this.#reused && !this.#answers });
  }
}
