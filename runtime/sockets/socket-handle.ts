// What lies below a socket of node:net, and has no socket yet. Node does not document it: its own sockets are made of it, by
// the same calls. What Node is pinned to has them (`npm test` tries each); another Node must be tried first.
import { createServer, type Server, Socket, type SocketConstructorOpts } from 'node:net';

/** Whatever a handle is asked to do is told of its end by one of these; `status` is 0, or a number of libuv's below 0. */
export interface HandleRequest {
  oncomplete?: (status: number) => void;
  /** What is being written must not be collected meanwhile. */
  buffer?: Buffer;
}

/** What lies below a connection. Calls that return a number return 0, or an error's number. */
export interface SocketHandle {
  /** Is called when there is something in the buffer, and when there will be no more: `readResult` tells which. */
  onread: () => void;
  close(done?: () => void): void;
  useUserBuffer(buffer: Buffer): void;
  readStart(): number;
  readStop(): number;
  writeLatin1String(request: HandleRequest, text: string): number;
  writeBuffer(request: HandleRequest, bytes: Buffer): number;
  shutdown(request: HandleRequest): number;
  /** Those of unix sockets have none of these. */
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
    /** Where the last read or write left its result. */
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

/** When a silent connection is probed, in seconds. */
const PROBE_AFTER_S = 60;
/** What `readResult` says at the end of what the other side sends: libuv's number. */
export const END = -4095;

interface Listening {
  onconnection(status: number, accepted: SocketHandle): void;
  /** Those of unix sockets have neither of these. */
  setNoDelay?(is: boolean): void;
  setKeepAlive?(is: boolean, afterS: number): void;
}

/** Of the read that `onread` is called for: how many bytes came, `END`, or another error's number. */
export function readResult(): number {
  return streamBaseState[kReadBytesOrError]!;
}

/** Whether the last write has yet to end: the system did not take all of it at once. Its request may not be used again. */
export function wroteLater(): boolean {
  return streamBaseState[kLastWriteWasAsync] !== 0;
}

/** A handle that connects to the unix socket at a path, or to a port of an IPv4 address. `onConnect` is called later. */
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

/** An attempt that fails at once is told of like any other: later. */
function begin(status: number, onConnect: (status: number) => void): void {
  if (status !== 0) process.nextTick(onConnect, status);
}

/**
 * A server that gives away what lies below each connection. Nothing is read from it before it is asked for. Connections by a
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

/** The socket of Node's that a handle belongs below. */
export function socketOf(handle: SocketHandle, options: SocketConstructorOpts): Socket {
  return new Socket({ ...options, handle } as unknown as SocketConstructorOpts);
}
