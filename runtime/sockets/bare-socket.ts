// A connection without a stream of Node's on top: its bytes are handed over as they are read, and what is written goes to the
// system at once. Node's streams took a seventh of the gateway's own time for a small request, and more of it for a connection
// that says nothing.
import { type OnReadOpts, Socket, type SocketConstructorOpts } from 'node:net';
import { goOn, standStill } from './clock.ts';
import { Prefixes } from './prefixes.ts';
import {
  connectHandle,
  END,
  type HandleRequest,
  readResult,
  ShutdownWrap,
  type SocketHandle,
  WriteWrap,
  wroteLater,
} from './socket-handle.ts';

/** Most bytes read at once: a body of 64 KiB comes in one read with its head. */
const READ_BYTES = 80 * 1024;
/** All sockets are read into one buffer: memory of its own for each read costs more to collect than all else of an upload. */
const room = new Prefixes(READ_BYTES);
const { buffer } = room;
/** Bytes that may wait to leave before there is no room for more. */
const ROOM_BYTES = 64 * 1024;

/** Whether bytes lie where all sockets are read into. */
export function isLent(bytes: Buffer): boolean {
  return bytes.buffer === buffer.buffer;
}

/** Bytes that stay as they are: a copy if they lie where all sockets are read into. */
export function ownCopy(bytes: Buffer): Buffer {
  return isLent(bytes) ? Buffer.from(bytes) : bytes;
}

/** Whoever a connection is for. None of these is called after `onClose`. */
export interface SocketUser {
  /** What came. It stays as it is until this returns: whoever keeps some of it takes `ownCopy`. */
  onRead(bytes: Buffer): void;
  /** The other side sends no more. */
  onEnd(): void;
  /** What waited to leave has left. */
  onDrain(): void;
  /** What was written can no longer leave: the other side does not take it. It may still send. */
  onLost(): void;
  /** All has left, and the other side has been told that no more comes. */
  onFinish(): void;
  /** The connection is closed, by whomever. */
  onClose(): void;
}

/** What `toStream` makes: a write that fails is lost, as it is for a bare socket, and what the other side sent can still be read. */
class BareStream extends Socket {
  readonly #onLost: () => void;

  constructor(handle: SocketHandle, onread: OnReadOpts, onLost: () => void) {
    super({ handle, allowHalfOpen: true, onread } as unknown as SocketConstructorOpts);
    this.#onLost = onLost;
  }

  /** A stream of Node's that is paused reads on until its buffer is full, and drops that when it meets a reset behind it. */
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

/** Of a write that the system takes at once nothing is left: the next one may have its request. */
let spare: HandleRequest = new WriteWrap();

export class BareSocket {
  readonly #user: SocketUser;
  /** Null once it is closed, or is a stream. */
  #handle: SocketHandle | null;
  /** Set once another protocol has it. */
  #stream: Socket | null = null;
  #reading = true;
  #connecting = false;
  #waiting = 0;
  #ending = false;
  #finished = false;
  /** Whether it is to be closed when all has left. */
  #closesSoon = false;

  /** @param handle of a connection that was accepted, or is being made */
  private constructor(handle: SocketHandle, user: SocketUser) {
    this.#handle = handle;
    this.#user = user;
    handle.onread = () => this.#onRead();
    handle.useUserBuffer(buffer);
  }

  /** Takes an accepted connection, and reads it. */
  static accept(handle: SocketHandle, user: SocketUser): BareSocket {
    const socket = new BareSocket(handle, user);
    socket.#readOrNot();
    return socket;
  }

  /**
   * Connects to a unix socket, or to a port of an IPv4 address. What is written before that leaves afterwards.
   * @param onConnect is called when it is connected; when it cannot be, `onClose` is
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

  /** Whether all that was written has left, and the other side has been told that no more comes. */
  get finished(): boolean {
    return this.#finished;
  }

  get isPaused(): boolean {
    return !this.#reading;
  }

  /** Bytes of what was written that have not left all at once. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The other side's address; undefined for a unix socket, and when it has left already. */
  get peer(): string | undefined {
    const peer: { address?: string } = {};
    this.#handle?.getpeername?.(peer);
    return peer.address;
  }

  /**
   * Writes bytes, or a text of bytes in latin1. Bytes must stay as they are while they are `waiting`. Returns whether there is
   * room for more; if not, `onDrain` tells.
   */
  write(data: Buffer | string): boolean {
    const handle = this.#handle;
    if (handle === null || this.#ending) return true;
    const request = spare;
    const isText = typeof data === 'string';
    const error = isText ? handle.writeLatin1String(request, data) : handle.writeBuffer(request, data);
    // Node aborts when a request that is still in use is used again.
    if (error !== 0 || wroteLater()) spare = new WriteWrap();
    if (error !== 0) this.#user.onLost();
    else if (wroteLater()) {
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

  /** Tells the other side that no more comes, once all has left. */
  end(): void {
    if (this.#handle === null || this.#ending) return;
    this.#ending = true;
    const request = new ShutdownWrap();
    request.oncomplete = this.#onShutdown;
    // The other side has gone: nobody is to be told.
    if (this.#handle.shutdown(request) !== 0) process.nextTick(this.#onShutdown);
  }

  /** Ends it, and closes it once all has left. */
  destroySoon(): void {
    this.end();
    this.#closesSoon = true;
    if (this.#finished) this.destroy();
  }

  /** Closes it at once. */
  destroy(): void {
    if (this.#stream !== null) this.#stream.destroy();
    else this.#handle?.close(this.#onClose);
    this.#handle = null;
  }

  /** Closes it with a reset, so that the other side cannot take what it has for the whole. A unix socket knows none. */
  resetAndDestroy(): void {
    const handle = this.#handle;
    // One whose end was announced can no longer be reset.
    if (handle?.reset === undefined || this.#ending) this.destroy();
    else handle.reset(this.#onClose);
    this.#handle = null;
  }

  /** Makes a stream of it, for another protocol. From then on only `destroy` and `onClose` are of use here. */
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
    standStill();
    try {
      if (count > 0) this.#user.onRead(room.of(count));
      else if (count === END) this.#user.onEnd();
      else if (count < 0) this.destroy();
    } finally {
      goOn();
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
