// All sockets are read into one buffer. Node makes one of 64 KiB for each read of an accepted socket otherwise, and
// collecting those took more time than anything else that the gateway does with an upload.
import type { OnReadOpts, Socket } from 'node:net';
import { type SocketHandle, socketOf } from '../../machine/socket-handle.ts';

/** Most bytes read at once: a body of 64 KiB comes in one read with its head. */
const READ_BYTES = 80 * 1024;
const buffer = Buffer.allocUnsafeSlow(READ_BYTES);

/**
 * How a socket is to be read: an option of node:net's `Socket`.
 * @param onRead is called with what came, which stays as it is until `onRead` returns: whoever keeps some of it takes
 * `ownCopy`. Returns whether to read on; if not, `socket.resume()` does
 */
export function reading(onRead: (bytes: Buffer) => boolean): OnReadOpts {
  return { buffer, callback: (count) => onRead(buffer.subarray(0, count)) };
}

/** Bytes that stay as they are: a copy if they lie where all sockets are read into. */
export function ownCopy(bytes: Buffer): Buffer {
  return bytes.buffer === buffer.buffer ? Buffer.from(bytes) : bytes;
}

/** The socket of an accepted connection, which is read so: Node lets only sockets that it connects say how they are read. */
export function readAccepted(accepted: SocketHandle, onread: OnReadOpts): Socket {
  return socketOf(accepted, { allowHalfOpen: true, onread });
}
