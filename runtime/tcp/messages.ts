// Messages between the host and its relay of TCP connections.

/** The header of the relay's requests to the host: a `Caller` as JSON. */
export const CALLER_HEADER = 'x-cellar-tcp';

/** A range of ports, from `first` to `last`, both included. */
export interface PortRange {
  first: number;
  last: number;
}

/** The first message to the relay. */
export interface Setup {
  type: 'setup';
  ports: PortRange;
  /** Whether the relay listens on loopback only. */
  isLocal: boolean;
  /** Path of the gateway's socket that finds the app by the port and forwards to it. */
  socket: string;
}

/** A connection, as the relay describes it. */
export interface Caller {
  /** The port at which the relay accepted the connection. */
  port: number;
  /** The client's address and port, such as `192.0.2.1:5000` or `[2001:db8::1]:5000`. */
  remote: string;
  /** The address and port of this machine to which the client connected. */
  local: string;
}
