// The least that a proxy in Node can do: it hands on what comes, without a look at it, and writes no log. What the gateway
// costs beyond this is its own. Its configuration is a file with the port and the path of the socket.
import { readFileSync } from 'node:fs';
import { BareSocket, type SocketUser } from '../../runtime/sockets/bare-socket.ts';
import { createHandleServer } from '../../runtime/sockets/socket-handle.ts';

const [port, socketPath] = readFileSync(process.argv[2]!, 'utf8').split(' ') as [string, string];

/** Hands on what comes to another socket, and ends with it. */
class Relay implements SocketUser {
  other: BareSocket | null = null;

  onRead(bytes: Buffer): void {
    this.other!.write(bytes.toString('latin1'));
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

const server = createHandleServer((accepted) => {
  const client = new Relay();
  const upstream = new Relay();
  upstream.other = BareSocket.accept(accepted, client);
  client.other = BareSocket.connect({ socketPath }, upstream, () => {});
});
server.listen(Number(port), '127.0.0.1');
