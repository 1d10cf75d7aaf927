// A connection without a Node stream: it passes bytes on as they are read, and writes to the system at once. Node's streams
// took a seventh of the gateway's own time for a small request, and more for an idle connection.
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import { freezeClock, resumeClock } from './clock.ts';
import { Prefixes } from './prefixes.ts';
import {
  connectHandle,
  END,
  type HandleRequest,
  isWritePending,
  readResult,
  ShutdownWrap,
  type SocketHandle,
  WriteWrap,
} from './socket-handle.ts';

/** Most bytes of one read: a body of 64 KiB arrives in one read with its head. */
const READ_BYTES = 80 * 1024;
/** All sockets share one read buffer: collecting a buffer for each read costs more than the rest of an upload. */
const room = new Prefixes(READ_BYTES);
const { buffer } = room;
/** High-water mark for backpressure: bytes that may wait to be sent. */
const ROOM_BYTES = 64 * 1024;

/** Whether bytes lie in the shared read buffer. */
export function isInReadBuffer(bytes: Buffer): boolean {
  return bytes.buffer === buffer.buffer;
}

/** Returns bytes that stay unchanged: a copy if they lie in the shared read buffer. */
export function ownCopy(bytes: Buffer): Buffer {
  return isInReadBuffer(bytes) ? Buffer.from(bytes) : bytes;
}

/** The callbacks of a connection. None is called after `onClose`. */
export interface SocketUser {
  /** Data arrived. It is valid until this returns: keep it by `ownCopy`. */
  onRead(bytes: Buffer): void;
  /** The peer sends no more. */
  onEnd(): void;
  /** All waiting bytes are sent. */
  onDrain(): void;
  /** The peer no longer accepts data, so written bytes are lost. It may still send. */
  onLost(): void;
  /** All bytes are sent, and so is the end of the stream. */
  onFinish(): void;
  /** The connection is closed, by either side. */
  onClose(): void;
}

/** The result of `toStream`. A failed write is lost, as on a bare socket, and data from the peer can still be read. */
class BareStream extends Socket {
  readonly #onLost: () => void;

  constructor(handle: SocketHandle, onread: OnReadOpts, onLost: () => void) {
    super({ handle, allowHalfOpen: true, onread } as unknown as SocketConstructorOpts);
    this.#onLost = onLost;
  }

  /** A paused Node stream reads on until its buffer is full, and drops the buffer on a reset after it. */
  override read(size?: number): unknown {
    return size === 0 && this.isPaused() ? null : super.read(size);
  }

  override _write(chunk: unknown, encoding: BufferEncoding, done: () => void): void {
    super._write(chunk, encoding, (error) => this.#written(error, done));
  }

  override _writev(chunks: Array<{ chunk: unknown; encoding: BufferEncoding }>, done: () => void): void {
    super._writev!(chunks, (error) => this.#written(error, done));
  }

  #written(error: Error | null | undefined, done: () => void): void {
    if (error) this.#onLost();
    done();
  }
}

/** A write that completes at once leaves its request free for the next one. */
let spare: HandleRequest = new WriteWrap();

export class BareSocket {
  readonly #user: SocketUser;
  /** Null once it is closed or became a stream. */
  #handle: SocketHandle | null;
  /** Set once another protocol has taken over. */
  #stream: Socket | null = null;
  #reading = true;
  #connecting = false;
  #waiting = 0;
  #ending = false;
  #finished = false;
  /** Whether to close once all bytes are sent. */
  #closesSoon = false;

  /** @param handle of an accepted or connecting connection */
  private constructor(handle: SocketHandle, user: SocketUser) {
    this.#handle = handle;
    this.#user = user;
    handle.onread = () => this.#onRead();
    handle.useUserBuffer(buffer);
  }

  /** Takes an accepted connection and starts reading. */
  static accept(handle: SocketHandle, user: SocketUser): BareSocket {
    const socket = new BareSocket(handle, user);
    socket.#readOrNot();
    return socket;
  }

  /**
   * Connects to a unix socket, or to a port of an IPv4 address. Earlier writes are sent after the connect.
   * @param onConnect called when it is connected; on failure, `onClose` is called instead
   */
  static connect(
    to: { socketPath: string } | { host: string; port: number },
    user: SocketUser,
    onConnect: () => void,
  ): BareSocket {
    const handle = connectHandle(to, (status) => {
      socket.#connecting = false;
      if (socket.#handle === null) return;
      if (status !== 0) socket.destroy();
      else {
        socket.#readOrNot();
        onConnect();
      }
    });
    const socket = new BareSocket(handle, user);
    socket.#connecting = true;
    return socket;
  }

  get destroyed(): boolean {
    return this.#handle === null && this.#stream?.destroyed !== false;
  }

  /** Whether all written bytes and the end of the stream are sent. */
  get finished(): boolean {
    return this.#finished;
  }

  get isPaused(): boolean {
    return !this.#reading;
  }

  /** Bytes of writes that are not yet complete. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The peer's address; undefined for a unix socket, and after the peer has gone. */
  get peer(): string | undefined {
    const peer: { address?: string } = {};
    this.#handle?.getpeername?.(peer);
    return peer.address;
  }

  /**
   * Writes bytes, or a latin1 text. Do not change the bytes while they are `waiting`. Returns false on backpressure: then
   * wait for `onDrain`.
   */
  write(data: Buffer | string): boolean {
    const handle = this.#handle;
    if (handle === null || this.#ending) return true;
    const request = spare;
    const isText = typeof data === 'string';
    const error = isText ? handle.writeLatin1String(request, data) : handle.writeBuffer(request, data);
    // Node aborts when a request in use is reused.
    if (error !== 0 || isWritePending()) spare = new WriteWrap();
    if (error !== 0) this.#user.onLost();
    else if (isWritePending()) {
      this.#await(request, data.length);
      if (!isText) request.buffer = data;
    }
    return this.#waiting < ROOM_BYTES;
  }

  pause(): void {
    this.#reading = false;
    this.#readOrNot();
  }

  resume(): void {
    this.#reading = true;
    this.#readOrNot();
  }

  /** Ends the stream once all bytes are sent. */
  end(): void {
    if (this.#handle === null || this.#ending) return;
    this.#ending = true;
    const request = new ShutdownWrap();
    request.oncomplete = this.#onShutdown;
    // The peer has gone.
    if (this.#handle.shutdown(request) !== 0) process.nextTick(this.#onShutdown);
  }

  /** Ends the stream, and closes the connection once all bytes are sent. */
  destroySoon(): void {
    this.end();
    this.#closesSoon = true;
    if (this.#finished) this.destroy();
  }

  /** Closes the connection at once. */
  destroy(): void {
    if (this.#stream !== null) this.#stream.destroy();
    else this.#handle?.close(this.#onClose);
    this.#handle = null;
  }

  /** Closes the connection with a reset, so that the peer cannot take partial data for the whole. Unix sockets have no reset. */
  resetAndDestroy(): void {
    const handle = this.#handle;
    // After a shutdown, a reset is no longer possible.
    if (handle?.reset === undefined || this.#ending) this.destroy();
    else handle.reset(this.#onClose);
    this.#handle = null;
  }

  /** Converts the connection to a Node stream, for another protocol. Afterwards only `destroy` and `onClose` work here. */
  toStream(): Socket {
    const handle = this.#handle!;
    handle.readStop();
    const callback = (count: number) => stream.push(Buffer.from(buffer.subarray(0, count)));
    const stream = new BareStream(handle, { buffer, callback }, () => this.#user.onLost());
    stream.once('close', this.#onClose);
    this.#handle = null;
    this.#stream = stream;
    return stream;
  }

  #readOrNot(): void {
    if (this.#connecting) return;
    if (this.#reading) this.#handle?.readStart();
    else this.#handle?.readStop();
  }

  #onRead(): void {
    const count = readResult();
    freezeClock();
    try {
      if (count > 0) this.#user.onRead(room.of(count));
      else if (count === END) this.#user.onEnd();
      else if (count < 0) this.destroy();
    } finally {
      resumeClock();
    }
  }

  #await(request: HandleRequest, bytes: number): void {
    this.#waiting += bytes;
    request.oncomplete = (status) => {
      this.#waiting -= bytes;
      if (this.#handle === null) return;
      if (status !== 0) this.#user.onLost();
      else if (this.#waiting === 0) this.#user.onDrain();
    };
  }

  readonly #onShutdown = (): void => {
    if (this.#handle === null) return;
    this.#finished = true;
    this.#user.onFinish();
    if (this.#closesSoon) this.destroy();
  };

  readonly #onClose = (): void => {
    this.#user.onClose();
  };
}
