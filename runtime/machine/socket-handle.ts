// What lies below a socket of node:net, and has no socket yet. Node does not document it; its own `net.Server` takes its
// connections and makes sockets of them in this way.
import { createServer, type Server, Socket, type SocketConstructorOpts } from 'node:net';

/** What lies below a connection. `socketOf` makes a socket of it. */
export interface SocketHandle {
  close(): void;
}

/** When a silent connection is probed, in seconds. */
const PROBE_AFTER_S = 60;

interface Listening {
  onconnection(status: number, accepted: SocketHandle): void;
  /** Those of unix sockets have neither of these. */
  setNoDelay?(is: boolean): void;
  setKeepAlive?(is: boolean, afterS: number): void;
}

/**
 * A server that gives away what lies below each connection. Nothing is read from it before it has a socket. Connections by a
 * port send at once what is written, and are probed when they have been silent for a minute, so that clients that vanished do
 * not hold them open. They have that from the socket that takes them, where it costs no call of the system's for each.
 */
export function createHandleServer(onHandle: (handle: SocketHandle) => void): Server {
  const server = createServer();
  return server.on('listening', () => {
    const listening = (server as unknown as { _handle: Listening })._handle;
    listening.setNoDelay?.(true);
    listening.setKeepAlive?.(true, PROBE_AFTER_S);
    const onConnection = listening.onconnection;
    listening.onconnection = (status, accepted) => {
      // The server emits the error.
      if (status !== 0) onConnection.call(listening, status, accepted);
      else onHandle(accepted);
    };
  });
}

/** Its socket. */
export function socketOf(handle: SocketHandle, options: SocketConstructorOpts): Socket {
  return new Socket({ ...options, handle } as SocketConstructorOpts);
}
