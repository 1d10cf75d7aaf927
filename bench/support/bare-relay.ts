// The minimum that a proxy in Node can do: it forwards bytes unparsed, and writes no log. Any further cost is the gateway's
// own. Its configuration is a file with the port and the path of the socket.
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import {
  acceptSocket,
  connectSocket,
  createSocketServer,
  type SocketUser,
  send,
} from '../../runtime/sockets/gateway-socket.ts';

const [port, socketPath] = readFileSync(process.argv[2]!, 'utf8').split(' ') as [string, string];

/** Forwards bytes to another socket, and ends with it. */
class Relay implements SocketUser {
  other: Socket | null = null;

  onRead(bytes: Buffer): void {
    send(this.other!, bytes.toString('latin1'));
  }

  onEnd(): void {
    this.onClose();
  }

  onDrain(): void {}

  onLost(): void {
    this.onClose();
  }

  onFinish(): void {}

  onClose(): void {
    this.other!.destroy();
  }
}

const server = createSocketServer((accepted) => {
  const client = new Relay();
  const upstream = new Relay();
  upstream.other = accepted;
  acceptSocket(accepted, client);
  client.other = connectSocket({ socketPath }, upstream, () => {});
});
server.listen(Number(port), '127.0.0.1');
