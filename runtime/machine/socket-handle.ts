// What lies below a socket of node:net. Node does not document it; its own `net.Server` makes sockets of it in this way.
import { Socket, type SocketConstructorOpts } from 'node:net';

/** Takes it out of a socket, which is of no use afterwards. */
export function takeHandle(socket: Socket): unknown {
  const owner = socket as unknown as { _handle: { reading: boolean; readStop(): void } | null };
  const handle = owner._handle!;
  owner._handle = null;
  handle.reading = false;
  handle.readStop();
  // A server counts it as gone.
  socket.destroy();
  return handle;
}

/** Another socket of it. */
export function socketOf(handle: unknown, options: SocketConstructorOpts): Socket {
  return new Socket({ ...options, handle } as SocketConstructorOpts);
}
