// Clients that vanish silently: TCP keepalive probes end their connections.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { platform } from 'node:os';
import { test } from 'node:test';
import { RawClient, startGateway, startRawUpstream } from '../support/edge/peers.ts';

/** The value of the column `tr` in `/proc/net/tcp` while the keepalive timer runs. */
const PROBED = '02';

test('a silent connection gets keepalive probes', { skip: platform() !== 'linux' }, async () => {
  await using upstream = await startRawUpstream((_head, socket) =>
    socket.write('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'),
  );
  await using front = await startGateway(upstream.socketPath);
  using client = new RawClient(front.port);
  // The answer shows that the gateway has accepted the connection.
  await client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n').expect('200 OK');
  const [own, peer] = [front.port, client.socket.localPort!].map((port) => `0100007F:${hexadecimal(port)}`);
  const rows = readFileSync('/proc/net/tcp', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/\s+/));
  const row = rows.find(([, local, remote]) => local === own && remote === peer);
  assert.equal(row?.[5]?.slice(0, 2), PROBED);
});

function hexadecimal(port: number): string {
  return port.toString(16).toUpperCase().padStart(4, '0');
}
