// The gateway's sockets: to clients, to processes and to other hosts. Each reports its events to one `SocketUser`.
import { createServer, type Server, Socket } from 'node:net';
import { freezeClock, resumeClock } from './clock.ts';
import { Prefixes } from './prefixes.ts';

/** Maximum bytes of one read from a process: a body of 64 KiB arrives in one read with its head. */
const READ_BYTES = 80 * 1024;
/** All connections to processes share one read buffer: garbage collection of a buffer per read costs more than the read. */
const room = new Prefixes(READ_BYTES);
const { buffer } = room;
/** Maximum bytes that a paused client's socket buffers: Node reads once more, into a buffer of this size. */
export const READ_AHEAD_BYTES = 64 * 1024;
/** High-water mark for backpressure: bytes that may wait to be sent. */
const ROOM_BYTES = 64 * 1024;
/** Idle time before the first TCP keep-alive probe, in ms. Vanished clients must not hold a connection open. */
const PROBE_AFTER_MS = 60_000;

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
  /** Data arrived. It is valid until this returns; to keep it, call `ownCopy`. */
  onRead(bytes: Buffer): void;
  /** The peer has ended its side, and sends no more. */
  onEnd(): void;
  /** All buffered bytes are sent, after backpressure. */
  onDrain(): void;
  /** The process no longer accepts data, so written bytes are lost. It may still send. Never called for a client. */
  onLost?(): void;
  /** All bytes are sent, and so is the end of the stream. */
  onFinish(): void;
  /** The connection is closed, by either side. */
  onClose(): void;
}

type UsedSocket = Socket & { user: SocketUser };

// Shared by all sockets: a closure for each socket would cost memory for every open connection.
function onData(this: UsedSocket, bytes: Buffer): void {
  read(this.user, bytes);
}

function onEnd(this: UsedSocket): void {
  this.user.onEnd();
}

function onDrain(this: UsedSocket): void {
  this.user.onDrain();
}

function onFinish(this: UsedSocket): void {
  this.user.onFinish();
}

function onClose(this: UsedSocket): void {
  this.user.onClose();
}

/** Does nothing: an error is handled on `close`, which follows. */
function onError(): void {}

function read(user: SocketUser, bytes: Buffer): void {
  freezeClock();
  try {
    user.onRead(bytes);
  } finally {
    resumeClock();
  }
}

function report(socket: UsedSocket): void {
  socket
    .on('end', onEnd)
    .on('drain', onDrain)
    .on('finish', onFinish)
    .on('close', onClose)
    .on('error', onError);
}

/** A socket to a process or another host. After a failed write, the written data is lost, but data can still be read. */
class ProcessSocket extends Socket {
  readonly user: SocketUser;
  /** Whether data is read from the socket as a stream, and no longer passed to `user`. */
  isStream = false;

  constructor(user: SocketUser) {
    super({ allowHalfOpen: true, onread: { buffer, callback: (count) => this.#onRead(count) } });
    this.user = user;
  }

  #onRead(count: number): boolean {
    if (this.isStream) return this.push(Buffer.from(room.of(count)));
    read(this.user, room.of(count));
    return true;
  }

  /** Reads nothing while paused: Node would fill the stream's buffer, and drop the buffered data if the peer then resets. */
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
    if (error) this.user.onLost?.();
    done();
  }
}

/**
 * Returns a server for clients. `onSocket` must pass each socket to `acceptSocket` at once. The high-water mark of 1 byte
 * limits what a paused socket buffers to a single read. Otherwise Node would keep thousands of small reads, each with an
 * object.
 */
export function createSocketServer(onSocket: (socket: Socket) => void): Server {
  const tcp = { noDelay: true, keepAlive: true, keepAliveInitialDelay: PROBE_AFTER_MS };
  return createServer({ allowHalfOpen: true, highWaterMark: 1, ...tcp }, onSocket);
}

/** Starts to read a client's socket for `user`. */
export function acceptSocket(accepted: Socket, user: SocketUser): void {
  const socket = Object.assign(accepted, { user });
  report(socket);
  socket.on('data', onData);
}

/**
 * Connects to a unix socket, or to a port. Data written before the socket is connected is sent once it is.
 * @param onConnect called when the socket is connected; on failure, `SocketUser.onClose` is called instead
 */
export function connectSocket(
  to: { socketPath: string } | { host: string; port: number },
  user: SocketUser,
  onConnect: () => void,
): Socket {
  const socket = new ProcessSocket(user);
  report(socket);
  const address = 'socketPath' in to ? { path: to.socketPath } : to;
  return socket.setNoDelay().connect(address, onConnect);
}

/**
 * Writes bytes, or a latin1 text, unless the socket has ended. Do not change the bytes while `writableLength` is above 0.
 * Returns false on backpressure: then wait for `drain`.
 */
export function send(socket: Socket, data: Buffer | string): boolean {
  if (!socket.writable) return true;
  socket.write(data, 'latin1');
  return socket.writableLength < ROOM_BYTES;
}

/** Closes a connection with a reset, so that the peer cannot take partial data for the whole. Unix sockets have no reset. */
export function reset(socket: Socket): void {
  // After a shutdown, a reset is no longer possible.
  if (socket.remoteAddress === undefined || socket.writableEnded) socket.destroy();
  else socket.resetAndDestroy();
}

/** Turns a socket into a stream for another protocol. Of its user, only `onClose` and `onLost` are called afterwards. */
export function toStream(socket: Socket): Socket {
  if (socket instanceof ProcessSocket) socket.isStream = true;
  return socket.off('data', onData).off('end', onEnd).off('drain', onDrain).off('finish', onFinish);
}
