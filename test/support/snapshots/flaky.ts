// A TCP proxy that resets connections.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

/**
 * Starts a proxy to a server on loopback.
 * @param bytesOf the bytes that a connection carries before the proxy resets it; null: never. Connections count from 1.
 * @returns its port, and counts of connections and resets
 */
export async function startFlaky(
  t: TestContext,
  port: number,
  bytesOf: (connection: number) => number | null,
) {
  const counts = { connections: 0, resets: 0 };
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const maxBytes = bytesOf(++counts.connections);
    const upstream = connect(port, '127.0.0.1');
    let carried = 0;
    const carry = (from: Socket, to: Socket) => {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => to.destroy());
      from.on('data', (bytes) => {
        carried += bytes.length;
        if (maxBytes === null || carried <= maxBytes) return void to.write(bytes);
        if (client.destroyed) return;
        counts.resets++;
        client.resetAndDestroy();
      });
    };
    carry(client, upstream);
    carry(upstream, client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  return { port: (server.address() as AddressInfo).port, counts };
}
