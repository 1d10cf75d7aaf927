// A bound TCP socket on 127.0.0.1 that the host holds for another process.
import net, { type Server } from 'node:net';

/** Node's internal handle of a server's socket. It begins to listen in the process that it is sent to, and then stays listening. */
interface TcpHandle {
  getsockname(into: { port?: number }): number;
  close(): void;
}

export interface TcpSocket {
  handle: TcpHandle;
  port: number;
}

/**
 * @param port 0: any free one
 * @throws {Error} when it cannot be bound
 */
export function makeTcpSocket(port: number): TcpSocket {
  const { _createServerHandle: create } = net as unknown as {
    _createServerHandle: (address: string, port: number, family: 4) => TcpHandle | number;
  };
  const handle = create('127.0.0.1', port, 4);
  const name: { port?: number } = {};
  if (typeof handle === 'number' || handle.getsockname(name) !== 0)
    throw new Error(`the bucket proxy cannot have port ${port} of 127.0.0.1`);
  return { handle, port: name.port! };
}

/** Casts a socket for `ChildProcess.send`, whose type lacks it. */
export function sendable({ handle }: TcpSocket): Server {
  return handle as unknown as Server;
}
