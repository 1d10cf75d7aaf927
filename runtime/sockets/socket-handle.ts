// The undocumented handle below a `node:net` socket, used without a socket. Node's own sockets make the same calls. The
// pinned Node has them (`npm test` tries each); try any other Node first.
import { createServer, type Server, Socket, type SocketConstructorOpts } from 'node:net';

/** A request to a handle, with its completion callback; `status` is 0, or a negative libuv error. */
export interface HandleRequest {
  oncomplete?: (status: number) => void;
  /** Keeps the buffer from garbage collection while it is written. */
  buffer?: Buffer;
}

/** The handle of a connection. Calls that return a number return 0, or an error number. */
export interface SocketHandle {
  /** Called when the buffer has data, and at the end of the stream: `readResult` tells which. */
  onread: () => void;
  close(done?: () => void): void;
  useUserBuffer(buffer: Buffer): void;
  readStart(): number;
  readStop(): number;
  writeLatin1String(request: HandleRequest, text: string): number;
  writeBuffer(request: HandleRequest, bytes: Buffer): number;
  shutdown(request: HandleRequest): number;
  /** Missing on unix sockets. */
  getpeername?(address: { address?: string }): number;
  setNoDelay?(is: boolean): number;
  reset?(done?: () => void): number;
}

type Connecting = SocketHandle & { connect(request: HandleRequest, ...address: (string | number)[]): number };
type RequestClass = new () => HandleRequest;
interface Bindings {
  stream_wrap: {
    WriteWrap: RequestClass;
    ShutdownWrap: RequestClass;
    /** The result of the last read or write. */
    streamBaseState: Int32Array;
    kReadBytesOrError: number;
    kLastWriteWasAsync: number;
  };
  pipe_wrap: {
    Pipe: new (kind: number) => Connecting;
    PipeConnectWrap: RequestClass;
    constants: { SOCKET: number };
  };
  tcp_wrap: {
    TCP: new (kind: number) => Connecting;
    TCPConnectWrap: RequestClass;
    constants: { SOCKET: number };
  };
}

const { binding } = process as unknown as {
  binding<Name extends keyof Bindings>(name: Name): Bindings[Name];
};
const streams = binding('stream_wrap');
const pipes = binding('pipe_wrap');
const tcp = binding('tcp_wrap');
const { WriteWrap, ShutdownWrap, streamBaseState, kReadBytesOrError, kLastWriteWasAsync } = streams;

export { ShutdownWrap, WriteWrap };

/** Idle time before the first TCP keep-alive probe, in seconds. */
const PROBE_AFTER_S = 60;
/** Result of `readResult` at the end of the stream: libuv's number. */
export const END = -4095;

interface Listening {
  onconnection(status: number, accepted: SocketHandle): void;
  /** Missing on unix sockets. */
  setNoDelay?(is: boolean): void;
  setKeepAlive?(is: boolean, afterS: number): void;
}

/** Returns the result of the read that `onread` is called for: the number of bytes, `END`, or another error number. */
export function readResult(): number {
  return streamBaseState[kReadBytesOrError]!;
}

/** Whether the last write is still pending: the system did not take all of it at once. Its request must not be reused. */
export function isWritePending(): boolean {
  return streamBaseState[kLastWriteWasAsync] !== 0;
}

/** Connects a handle to a unix socket path, or to a port of an IPv4 address. `onConnect` is called asynchronously. */
export function connectHandle(
  to: { socketPath: string } | { host: string; port: number },
  onConnect: (status: number) => void,
): SocketHandle {
  if ('socketPath' in to) {
    const handle = new pipes.Pipe(pipes.constants.SOCKET);
    begin(handle.connect(requestOf(pipes.PipeConnectWrap, onConnect), to.socketPath), onConnect);
    return handle;
  }
  const handle = new tcp.TCP(tcp.constants.SOCKET);
  handle.setNoDelay?.(true);
  begin(handle.connect(requestOf(tcp.TCPConnectWrap, onConnect), to.host, to.port), onConnect);
  return handle;
}

function requestOf(RequestOf: RequestClass, oncomplete: (status: number) => void): HandleRequest {
  return Object.assign(new RequestOf(), { oncomplete });
}

/** Reports an immediate failure asynchronously, like any other. */
function begin(status: number, onConnect: (status: number) => void): void {
  if (status !== 0) process.nextTick(onConnect, status);
}

/**
 * Returns a server that passes on the handle of each connection, unread. TCP connections send without delay, and are probed
 * after a minute of silence, so that vanished clients do not hold them open. They inherit both options from the listening
 * socket, without system calls for each.
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

/** Returns a Node socket on a handle. */
export function socketOf(handle: SocketHandle, options: SocketConstructorOpts): Socket {
  return new Socket({ ...options, handle } as unknown as SocketConstructorOpts);
}
