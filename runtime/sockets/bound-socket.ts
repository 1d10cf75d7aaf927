// A bound TCP socket that the host keeps open for another process.
import net, { type Server } from 'node:net';

/** Node's internal handle of a bound socket, on which another process listens. The port is in use while a handle is open. */
interface TcpHandle {
  getsockname(into: { port?: number }): number;
  close(): void;
}

export interface BoundSocket {
  handle: TcpHandle;
  port: number;
}

/**
 * Binds a TCP socket, without listening.
 * @param port 0 for any free port
 * @param address `::` becomes `0.0.0.0` on a machine without IPv6
 * @throws {Error} when the port cannot be bound
 */
export function bindSocket(port: number, address: '127.0.0.1' | '::'): BoundSocket {
  const { _createServerHandle: create } = net as unknown as {
    _createServerHandle: (address: string, port: number, family: 4 | 6) => TcpHandle | number;
  };
  let handle = create(address, port, address === '::' ? 6 : 4);
  if (typeof handle === 'number' && address === '::') handle = create('0.0.0.0', port, 4);
  const name: { port?: number } = {};
  if (typeof handle === 'number' || handle.getsockname(name) !== 0)
    throw new Error(`port ${port} of ${address} cannot be bound`);
  return { handle, port: name.port! };
}

/** Casts a handle for `ChildProcess.send`, whose type lacks it. */
export function sendable(handle: { close(): void }): Server {
  return handle as unknown as Server;
}
