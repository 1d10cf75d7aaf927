// One connection to a process: a request after another, and the answers read strictly.
import type { Socket } from 'node:net';
import { BareSocket, isLent, ownCopy, type SocketUser } from '../../sockets/bare-socket.ts';
import { monotonic } from '../../sockets/clock.ts';
import { Backlog } from '../http/body/backlog.ts';
import { BodyReader } from '../http/body/body.ts';
import { KnownBytes } from '../http/body/known-bytes.ts';
import { type AnswerHead, readAnswerHead } from '../http/head/answer-head.ts';
import { keptBytes } from '../http/head/fields.ts';
import type { Queued } from './queue.ts';

/** Longest wait for a connection to the process, in ms. It is on this machine, so a slow one is a dead one. */
const CONNECT_TIMEOUT_MS = 5_000;
/** Largest head of an answer, in bytes. Apps set many cookies. */
const HEAD_BYTES = 64 * 1024;

/** Longest head that is kept for the next answer, in bytes. */
const KNOWN_BYTES = 1_024;

/** Where a process listens: a unix socket, or a port of an IPv4 address. */
export type UpstreamAddress = { socketPath: string } | { host: string; port: number };

/** Why there is no whole answer. */
export interface Failure {
  /** Whether the process may have seen the request. */
  sent: boolean;
  /** Whether it may only mean that the process closed an idle connection just when it was used again. */
  stale: boolean;
}

/** Whoever waits for an answer. */
export interface AnswerReader {
  method: string;
  /** Whether another protocol was asked for. */
  upgrades: boolean;
  /** Which of the process's sockets is asked; left out or null: the one for all requests. */
  door?: string | null;
  /** The request may be written, to this connection. */
  onConnection(connection: UpstreamConnection): void;
  /** An answer before the answer: 1xx. */
  onInformation(head: AnswerHead): void;
  /** The connection is another protocol's now, whose bytes the socket emits; `early` are the first. */
  onSwitch(head: AnswerHead, socket: Socket, early: Buffer): void;
  /** Is followed by the body at once, if only by none of it. */
  onHead(head: AnswerHead): void;
  /** The pieces are the reader's until it returns. */
  onBody(pieces: Buffer[], last: boolean): void;
  /** Instead of anything more. */
  onFailure(failure: Failure): void;
  /** There is room for more of the request. */
  onRoom(): void;
}

/** Where a connection goes when it is free or has closed. */
export interface ConnectionPool {
  /** The answer has begun. */
  answered(connection: UpstreamConnection): void;
  put(connection: UpstreamConnection): void;
  remove(connection: UpstreamConnection): void;
}

/** A head of an answer. Many of a process's answers begin alike. */
class KnownHead {
  readonly head: AnswerHead;
  readonly #known: KnownBytes;
  /** The chunk that began with it last, and what came behind it there. */
  #chunk: Buffer | null = null;
  #rest: Buffer | null = null;

  /** @param bytes those of the head */
  constructor(bytes: Buffer, head: AnswerHead) {
    this.#known = new KnownBytes(bytes);
    this.head = head;
  }

  /** What comes behind it in a chunk that begins with it; null for any other. */
  restOf(chunk: Buffer): Buffer | null {
    if (!this.#known.isAt(chunk, 0)) return null;
    if (chunk === this.#chunk) return this.#rest;
    const rest = chunk.subarray(this.#known.bytes.length);
    // What is not lent is memory of its own, which must not be kept.
    if (isLent(chunk)) {
      this.#chunk = chunk;
      this.#rest = rest;
    }
    return rest;
  }
}

export class UpstreamConnection implements Queued<UpstreamConnection>, SocketUser {
  readonly socket: BareSocket;
  queue: object | null = null;
  before: UpstreamConnection | null = null;
  after: UpstreamConnection | null = null;
  /** When it was given its last request, on the clock of `performance.now()`. */
  givenAt = 0;
  /** How often it was looked at since it has been idle. */
  looks = 0;
  /** Which of the process's sockets it leads to. */
  readonly door: string | null;
  readonly #pool: ConnectionPool;
  #reader: AnswerReader | null = null;
  /** Whether the whole request was written. */
  #sent = false;
  #connected = false;
  readonly #connecting: NodeJS.Timeout;
  /** Whether it has carried a whole answer before. */
  #reused = false;
  /** Whether any byte of the answer has come. */
  #answers = false;
  /** The part of a head that has come. */
  readonly #early = new Backlog();
  #head: AnswerHead | null = null;
  /** The head of the answer before; null when that was long. */
  #known: KnownHead | null = null;
  #body: BodyReader | null = null;

  constructor(pool: ConnectionPool, address: UpstreamAddress, door: string | null) {
    this.door = door;
    this.#pool = pool;
    this.socket = BareSocket.connect(address, this, this.#onConnect);
    this.#connecting = setTimeout(() => this.socket.destroy(), CONNECT_TIMEOUT_MS).unref();
  }

  /** Takes it for one request, which the caller writes to the socket. */
  use(reader: AnswerReader): void {
    this.givenAt = monotonic();
    this.#reader = reader;
    this.#sent = false;
    this.#answers = false;
    this.#head = null;
  }

  /** The whole request was written. */
  sent(): void {
    this.#sent = true;
  }

  /** Nobody waits for the answer any more. */
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
    // Not before: the next request may then have this connection.
    if (this.#head !== null) this.#pool.answered(this);
  }

  #readAnswers(chunk: Buffer): void {
    let bytes = chunk;
    for (;;) {
      const reader = this.#reader;
      // Nothing was asked for.
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

  /** Returns the bytes behind the head; null when there is no whole one yet, or no more to be made of them here. */
  #readHead(reader: AnswerReader, chunk: Buffer): Buffer | null {
    // A HEAD is answered with the head of a body that does not come.
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

  /** The answer is whole. @param alone whether nothing came behind it */
  #finish(reader: AnswerReader, pieces: Buffer[], alone: boolean): void {
    const reusable = this.#head!.keepsAlive && this.#sent && alone;
    this.#reader = null;
    this.#body = null;
    this.#reused = true;
    reader.onBody(pieces, true);
    if (!reusable) this.socket.destroy();
    // A slow client may have stopped it.
    else if (this.socket.isPaused) this.socket.resume();
    if (reusable) this.#pool.put(this);
  }

  #switch(reader: AnswerReader, head: AnswerHead, early: Buffer): void {
    this.#reader = null;
    this.#pool.remove(this);
    reader.onSwitch(head, this.socket.toStream(), ownCopy(early));
  }

  readonly #onConnect = (): void => {
    this.#connected = true;
    clearTimeout(this.#connecting);
  };

  onDrain(): void {
    this.#reader?.onRoom();
  }

  /** The answer that the process sent before it closed can still be read, and its client may have to send the rest first. */
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
